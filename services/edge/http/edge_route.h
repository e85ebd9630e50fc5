/* Finds the route of a request by host and path, and runs its modules. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/table/table.h"

/* Pre-access phase of the HTTPS server: NGX_DECLINED to the proxy, NGX_OK where the request has a
 * content handler, or a status. */
ngx_int_t edge_route_handler(ngx_http_request_t *r);
/* Set the normalised path of ctx, and the target that goes upstream. NGX_OK | NGX_DECLINED: it is
 * refused | NGX_ERROR: no memory. */
ngx_int_t edge_route_normalize(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Is it a request of HTTP/0.9? It is answered as one of HTTP/1.0 then. */
ngx_uint_t edge_route_is_http_09(ngx_http_request_t *r);
/* Copy the edge's account id into ctx, for the event. NGX_OK | NGX_ERROR: no memory. */
ngx_int_t edge_keep_account(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge);
