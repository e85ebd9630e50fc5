/* Answers of the edge itself. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Deny: the page of the error takes the place of the proxy. NGX_OK: no module runs after it. What a
 * module denies it denies with edge_deny (modules/module.h). */
ngx_int_t edge_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code);
/* Content handler: the page of ctx->error, or of what the proxy could not do. */
ngx_int_t edge_error_handler(ngx_http_request_t *r);
/* Content handler: /healthz, /readyz and /metrics. */
ngx_int_t edge_status_handler(ngx_http_request_t *r);
