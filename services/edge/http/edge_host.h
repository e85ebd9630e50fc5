#pragma once

#include "services/edge/http/edge_ctx.h"

/* Set ctx->host and ctx->authority. NGX_OK | NGX_DECLINED: malformed, to be refused | NGX_ERROR. */
ngx_int_t edge_host(ngx_http_request_t *r, edge_ctx_t *ctx);
