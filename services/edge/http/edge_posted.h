/* Forms that are posted to the edge itself, where people sign in. Anybody can post one, so each is
 * bounded in bytes and in time, and what it takes of the worker's memory is of its client's portion
 * and its account's (edge_share.h). */
#pragma once

#include "services/edge/http/edge_ctx.h"

typedef struct {
    size_t max; /* bytes of a form, at most */
    /* The form came, in one text, which lives as long as the request. */
    ngx_int_t (*take)(ngx_http_request_t *r, ngx_str_t *text);
    /* It is refused: ERR_EDGE_SIGN_IN_FAILED: its length is not said, or more than max, or it is
     * empty; ERR_EDGE_CROWDED: its client, or its account, has its portion of memory;
     * ERR_EDGE_FORM_LATE: it did not come in time. Both return what a content handler does. */
    ngx_int_t (*refuse)(ngx_http_request_t *r, ngx_uint_t code);
} edge_posted_to_t;

/* Content handler's: read the form of a request, of the account of route (NULL: of none that is
 * known). `to` outlives the request. */
ngx_int_t edge_posted_read(ngx_http_request_t *r, const edge_posted_to_t *to, const route_t *route);
