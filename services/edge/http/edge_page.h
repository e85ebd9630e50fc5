/* Responses of the edge itself. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Deny with the page of error code: it replaces the proxy. NGX_OK: no later module runs. Modules
 * use edge_deny (modules/module.h) instead. */
ngx_int_t edge_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code);
/* Content handler: the page of ctx->error, or of the proxy's failure. */
ngx_int_t edge_error_handler(ngx_http_request_t *r);
/* Content handler: /healthz, /readyz and /metrics. */
ngx_int_t edge_status_handler(ngx_http_request_t *r);
