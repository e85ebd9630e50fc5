/* Which requests may use a connection, by what its handshake was for. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/table/table.h"

/* Was this connection made to one of the edge's names? */
ngx_uint_t edge_tls_is_of(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* May this request use this connection? NGX_OK, or NGX_DECLINED: 421; where the edge's demands are no longer those of the
 * handshake, it is the connection's last. */
ngx_int_t edge_tls_agrees(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* The name of the handshake may be nobody's by now: then the connection has its last request, too. */
void edge_tls_check_name(ngx_http_request_t *r);
