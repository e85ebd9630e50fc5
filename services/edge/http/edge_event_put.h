/* Parts of an event (edge_event.c). */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"

enum { EVENT_VALUE_MAX = 8192 /* bytes of a text; what is longer is cut */ };

/* Write a text. */
static ngx_inline void
edge_event_put_text(pack_t *pk, const void *data, size_t len)
{
    pack_str(pk, data, ngx_min(len, EVENT_VALUE_MAX));
}

/* Write a text without its user information: a password never leaves the edge. all: userinfo.h. */
void edge_event_put_public(pack_t *pk, const ngx_str_t *text, ngx_uint_t all);

/* Write the headers of the request as it came, or of the answer as it was sent: all, or none where
 * the event is too large otherwise. Returns how many were left out. */
ngx_uint_t edge_event_put_request_headers(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
                                          ngx_uint_t all);
ngx_uint_t edge_event_put_response_headers(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
                                           ngx_uint_t all);
