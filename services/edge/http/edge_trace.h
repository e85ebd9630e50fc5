/* The id of a request, and the trace that it belongs to. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Give the request its id: once, when its context is made. Lines of the log that are of this
 * request say it from then on. */
void edge_trace_id(ngx_http_request_t *r, edge_ctx_t *ctx);

/* Tell the upstream the request's id, and its trace: the client's traceparent where it is valid,
 * else one that begins here. Call after edge_forwarded_set, which hides what a client says in
 * the id's place. NGX_OK | NGX_ERROR. */
ngx_int_t edge_trace_set(ngx_http_request_t *r, edge_ctx_t *ctx);

/* Tell the client the request's id: a field of the response. NGX_OK | NGX_ERROR. */
ngx_int_t edge_trace_answer(ngx_http_request_t *r, edge_ctx_t *ctx);
