/* Which certificate and which demands a handshake gets, and which requests may use its connection. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/table/table.h"

ngx_int_t edge_tls_install(ngx_conf_t *cf);
void edge_tls_free_parsed(void *parsed);
/* Was this connection made to one of the edge's names? */
ngx_uint_t edge_tls_is_of(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* May this request use this connection? NGX_OK, or NGX_DECLINED: 421; where the edge's demands are no longer those of the
 * handshake, it is the connection's last. */
ngx_int_t edge_tls_agrees(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* The name of the handshake may be nobody's by now: then the connection has its last request, too. */
void edge_tls_check_name(ngx_http_request_t *r);
