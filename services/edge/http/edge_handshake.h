/* Which requests may use a connection, by the server name and TLS settings of its handshake. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/table/table.h"

/* Was the server name of this connection's handshake one of the edge's names? */
ngx_uint_t edge_tls_is_of(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* May this request use this connection? NGX_OK, or NGX_DECLINED: 421. Where the handshake does not
 * meet the edge's TLS settings any more, this is the connection's last request. */
ngx_int_t edge_tls_agrees(ngx_http_request_t *r, const edge_t *edge, edge_ctx_t *ctx);
/* Was the server name of this connection's handshake the request's host itself? */
ngx_uint_t edge_tls_is_of_host(ngx_http_request_t *r, const edge_ctx_t *ctx);
/* Before the head of the answer: if the connection's certificate has been replaced, or its name had
 * an edge that is gone, make this its last request. A certificate and its key would live as long
 * as connections that began with them. */
void edge_tls_check_certificate(ngx_http_request_t *r);
/* If the server name of the handshake is not served any more, make this the connection's last
 * request. */
void edge_tls_check_name(ngx_http_request_t *r);
