/* What the client of a request has taken of its answer (taken.h), as nginx and the kernel say. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* The connection that carries a request: with HTTP/2 the one that its stream is on. Borrowed. */
ngx_connection_t *edge_taken_connection(ngx_http_request_t *r);
/* A request begins whose answer has not. */
void edge_taken_begin(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Ask the kernel: bytes of the answer's body that the client has taken by now. */
off_t edge_taken_measure(edge_ctx_t *ctx);
