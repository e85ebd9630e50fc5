/* Who the client is, and what the upstream is told of it. */
#pragma once

#include "services/edge/http/edge_ctx.h"

ngx_int_t edge_forwarded_read(ngx_http_request_t *r, edge_ctx_t *ctx);
ngx_int_t edge_forwarded_set(ngx_http_request_t *r, edge_ctx_t *ctx);
