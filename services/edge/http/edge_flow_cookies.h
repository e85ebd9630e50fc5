/* Cookies at the sign-in host: one for each sign-in that a browser has under way, sealed by
 * identity, which says how it is called (STATE_NAME_LEN characters of the flow's state). */
#pragma once

#include "services/edge/http/edge_ctx.h"

enum { FLOW_NAME_LEN = 6 };

/* The one of the flow that a state names, "<route id>.<state>". Empty: there is none, or several
 * are. */
ngx_str_t edge_flow_cookie(ngx_http_request_t *r, const char *state, size_t len);

/* Add the cookie of another flow to the answer, and take the oldest ones away that leave no room
 * for it. NGX_OK | NGX_DECLINED: there is none, and the request may not take any away | NGX_ERROR.
 */
ngx_int_t edge_flow_cookie_add(ngx_http_request_t *r, const ngx_str_t *flow, const ngx_str_t *value,
                               ngx_uint_t may_take);

/* Take the cookie of the flow of that state away: it has ended. NGX_OK | NGX_ERROR. */
ngx_int_t edge_flow_cookie_end(ngx_http_request_t *r, const char *state, size_t len);
