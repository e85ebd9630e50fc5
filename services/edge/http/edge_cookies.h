/* Cookies of sign-in stay between browsers and the edge. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Before the request goes upstream, and after its modules have read them: cut those of every route
 * of its edge (table/cookie_names.h) out of its headers. NGX_OK | NGX_ERROR. */
ngx_int_t edge_cookies_hide(ngx_http_request_t *r, edge_ctx_t *ctx);
