/* Reads of the response's body from the upstream, and the large buffers that are lent for them. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* In a worker, before it has requests. */
void edge_reader_start(ngx_cycle_t *cycle);
/* Wrap nginx's filter of what was read; called when the peer is initialised. */
void edge_reader_watch(ngx_http_request_t *r, edge_ctx_t *ctx);
/* When the request's memory is freed. */
void edge_reader_end(edge_ctx_t *ctx);
