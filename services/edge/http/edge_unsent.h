/* What an upstream has not taken of a request when its connection is closed. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Bytes that the peer's machine has not acknowledged. */
int edge_unsent_bytes(const ngx_connection_t *c);
/* When the connection is closed its peer learns at once that it is over, by a reset, and nothing of
 * it stays in the kernel. */
void edge_unsent_reset(ngx_connection_t *c);
/* A connection that was kept is about to be closed: where it is idle, what its peer has not taken
 * of former requests is left to it as long as it takes something now and then. */
void edge_unsent_leave(const ngx_connection_t *c);
/* The same of the request's connection to its upstream (NULL: there is none), however the request
 * ends: where it was given up, or its client or account has its portion of what may be left so,
 * more than a few bytes that are unsent are thrown away, and the connection is reset. */
void edge_unsent_end(const ngx_http_request_t *r, const edge_ctx_t *ctx, ngx_connection_t *c);
