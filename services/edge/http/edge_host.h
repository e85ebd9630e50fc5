#pragma once

#include "services/edge/http/edge_ctx.h"

/* Set ctx->host and ctx->authority. NGX_OK | NGX_DECLINED: malformed, to be refused | NGX_ERROR. */
ngx_int_t edge_host(ngx_http_request_t *r, edge_ctx_t *ctx);

/* The host of a request whose head may not have been read whole, in lower case without a port: that
 * of what was read, or else the name by which its TLS connection was made. Empty: neither says. */
ngx_str_t edge_host_asked(ngx_http_request_t *r);
