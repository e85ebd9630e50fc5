/* Answers of the edge itself. */
#pragma once

#include "services/edge/http/edge_ctx.h"

ngx_int_t edge_page(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code);
ngx_int_t edge_error_handler(ngx_http_request_t *r);
ngx_int_t edge_status_handler(ngx_http_request_t *r);
