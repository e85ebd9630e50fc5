/* Sockets that requests leave behind, with what their upstreams have not taken. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Initialise in a worker, before it has requests. */
void edge_unsent_left_start(ngx_cycle_t *cycle);
/* The request's connection to its upstream is about to be closed in order, and its upstream has not
 * taken so many bytes. Their memory is charged to the request's client and account until it has, or
 * acknowledges nothing more. 0: these have their portions, and nothing has changed. */
ngx_uint_t edge_unsent_left_keep(const edge_ctx_t *ctx, ngx_connection_t *c, size_t bytes);
