/* Requests that are being served, judged again when the configuration has changed. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/streams/registry.h"

/* Initialise in a worker, before it has requests. */
void edge_streams_start(ngx_cycle_t *cycle);
/* Register a request that has a route: it is judged after each change that concerns it. Removed
 * when its memory is freed. */
void edge_streams_add(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_streams_remove(edge_ctx_t *ctx);
/* Register a resumed request again, after it was judged by the current table: its remaining modules
 * may make it depend on more entries. */
void edge_streams_again(edge_ctx_t *ctx);
/* A change concerns key: judge all requests registered under it, in later turns of the event
 * loop. */
void edge_streams_touch(const stream_key_t *key);
/* Judge a request by the current table: 0, it may go on; else the error of its page. */
ngx_uint_t edge_streams_judge(ngx_http_request_t *r, edge_ctx_t *ctx);
