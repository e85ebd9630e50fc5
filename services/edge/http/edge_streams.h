/* Requests that are being served, judged again when the configuration has changed. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* In a worker, before it has requests. */
void edge_streams_start(ngx_cycle_t *cycle);
/* A request that has a route is judged after each change, until it is removed. */
void edge_streams_add(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_streams_remove(edge_ctx_t *ctx);
/* The table in force is another, or says something else: judge all, soon. */
void edge_streams_changed(void);
/* By the table in force: 0, the request may go on; else the code of its page. */
ngx_uint_t edge_streams_judge(ngx_http_request_t *r, edge_ctx_t *ctx);
/* The connection takes no request after this one. */
void edge_streams_last(ngx_http_request_t *r);
