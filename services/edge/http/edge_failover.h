/* Which backend a request goes to, where its route's backend leads to others: the members of a
 * weighted one by their shares, those of a failover one in order. Owns the memory that workers
 * share for that: the numbers of requests (rotation.h), and which members cannot be reached
 * (reach.h). */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* The backend module's shared memory and counters. */
enum { EDGE_FAILOVER_ZONE = 1024 * 1024 };
void *edge_failover_zone(void *slab_pool);
extern const char *const edge_failover_counters[];

/* The backend that serves a request now: of a weighted one the member whose turn it is, else
 * itself. NULL: there is none, or it is a failover backend. */
backend_t *edge_failover_choose(backend_t *backend);

/* The request's route leads to a failover backend: ctx->backend is the first member that can be
 * dialled, or an http_response one. NGX_OK | NGX_DECLINED: there is none | NGX_ERROR: no memory. */
ngx_int_t edge_failover_begin(ngx_http_request_t *r, edge_ctx_t *ctx, backend_t *backend);

/* Put the next member in ctx->backend, in place of one that was not reached. 0: there is none left,
 * or the configuration does not allow the request any more, and ctx->error says so. */
ngx_uint_t edge_failover_next(ngx_http_request_t *r, edge_ctx_t *ctx);

/* The dial of ctx->backend failed, or a connection was made. */
void edge_failover_failed(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_failover_made(ngx_http_request_t *r, edge_ctx_t *ctx);

/* The request ends. */
void edge_failover_end(edge_ctx_t *ctx);

/* Write which members are passed over, for /metrics, up to end; returns the end of the text. */
u_char *edge_failover_metrics(u_char *p, u_char *end);
