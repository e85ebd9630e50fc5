/* Cookies at the sign-in host: one for each sign-in that a browser has under way, sealed by
 * identity, in one of the places of flow_places.h, of which each has two names. Before the sealed
 * text a cookie says which flow it is (STATE_NAME_LEN characters of its state) and when it began.
 * Versions before this one named cookies by the flow: theirs are good until they are over. */
#pragma once

#include "services/edge/http/edge_ctx.h"

enum { FLOW_NAME_LEN = 6 };

/* The one of the flow that a state names, "<route id>.<state>". Empty: there is none, or several
 * are. */
ngx_str_t edge_flow_cookie(ngx_http_request_t *r, const char *state, size_t len);

/* Add the cookie of another flow to the answer. NGX_OK | NGX_DECLINED: there is no room for what is
 * framed | NGX_ERROR. */
ngx_int_t edge_flow_cookie_add(ngx_http_request_t *r, const ngx_str_t *flow, const ngx_str_t *value,
                               ngx_uint_t is_framed);

/* Take the cookie of the flow of that state away: it has ended. NGX_OK | NGX_ERROR. */
ngx_int_t edge_flow_cookie_end(ngx_http_request_t *r, const char *state, size_t len);

/* Take all of them away, where a head was too long and host is the sign-in host: each request of
 * this browser would be, until they are over. NGX_OK: nothing, at another host | NGX_ERROR. */
ngx_int_t edge_flow_cookies_clear(ngx_http_request_t *r, const ngx_str_t *host);

/* The turn of a request, for flow_places.h. */
uint64_t edge_flow_turn(const ngx_http_request_t *r);
