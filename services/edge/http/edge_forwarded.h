/* The client's address, and the X-Forwarded-* headers for the upstream. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Set client, client_ip, from_proxy and forwarded_for of ctx. NGX_OK | NGX_ERROR: no memory. */
ngx_int_t edge_forwarded_read(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Replace the request's forwarding headers, after edge_forwarded_read. NGX_OK | NGX_ERROR. */
ngx_int_t edge_forwarded_set(ngx_http_request_t *r, edge_ctx_t *ctx);
