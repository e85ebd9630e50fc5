/* Cookies of sign-in stay between browsers and the edge. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Before the request goes upstream, and after its modules have read them: cut those of every route
 * of its edge, and whatever looks like one (table/cookie_names.h), out of its headers. NGX_OK |
 * NGX_ERROR. */
ngx_int_t edge_cookies_hide(ngx_http_request_t *r, edge_ctx_t *ctx);

/* Would the value of a Set-Cookie field set one of those? An upstream that did would sign browsers
 * in as somebody else, at other routes of the host. */
ngx_uint_t edge_cookies_sets(const edge_ctx_t *ctx, const char *value, size_t len);
/* Take these fields out of the head of an upstream's answer. */
void edge_cookies_refuse(ngx_http_request_t *r, const edge_ctx_t *ctx);
