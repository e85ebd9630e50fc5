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
/* The stream, which is being judged, stays because of this weighted backend: its changes concern
 * the stream. NULL: it needs none. */
void edge_streams_stay(edge_ctx_t *ctx, backend_t *through);
/* A change concerns key: judge all requests registered under it, in later turns of the event
 * loop. */
void edge_streams_touch(const stream_key_t *key);
/* The session with this hash has ended, or with NULL any may have: judge the requests that it
 * admitted. */
void edge_streams_touch_session(const u_char *hash);
/* The same of what no log said, but this worker found out: nobody waits for it, and what it ends is
 * counted as ended by no change. */
void edge_streams_touch_here(const u_char *hash);
/* Judge a request by the current table: 0, it may go on; else the error of its page. */
ngx_uint_t edge_streams_judge(ngx_http_request_t *r, edge_ctx_t *ctx);
/* The request is about to become a stream that may stay open for ever: judge it as such, since what
 * ends a stream may have changed while it was a request. The same result, also in ctx->error; then
 * there is none. */
ngx_uint_t edge_streams_upgrade(ngx_http_request_t *r, edge_ctx_t *ctx);
