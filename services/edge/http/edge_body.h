/* Bodies of requests and responses: how many bytes are received, discarded and sent. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* So many seconds the client of a request that the edge refused may go on sending its body, until
 * it has read the page: where its connection is closed before, a reset may take the page away. */
enum { EDGE_BODY_LINGER_S = 10 };

/* Insert the body filters; once, while the configuration is read. */
void edge_body_install(void);
/* Start counting, before any byte of the body has been read. */
void edge_body_begin(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Read the request's body and throw it away, in place of ngx_http_discard_request_body; its bytes
 * are counted, unless ctx is NULL. After a malformed body the connection is closed. NGX_OK | an
 * HTTP status. */
ngx_int_t edge_body_discard(ngx_http_request_t *r, edge_ctx_t *ctx);
/* What still comes of the body behind the answer is thrown away for so many seconds at most, where
 * no other end was set; then the connection is closed. */
void edge_body_linger(ngx_http_request_t *r, time_t seconds);
/* Bytes of a 100 Continue that nginx sent before the response; 0: none was sent. */
size_t edge_body_continued(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Call when the request ends: the connection may carry another. */
void edge_body_end(edge_ctx_t *ctx);
/* Bytes of the request's body that arrived, without framing. */
off_t edge_body_received(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Bytes of the response's body that were sent, without framing. */
off_t edge_body_sent(ngx_http_request_t *r, edge_ctx_t *ctx);
