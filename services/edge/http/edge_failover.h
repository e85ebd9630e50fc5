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

/* The request's route leads to a failover backend: ctx->backend is the first member that would be
 * dialled now, or an http_response one. NGX_OK | NGX_DECLINED: there is none | NGX_ERROR: no
 * memory. */
ngx_int_t edge_failover_begin(ngx_http_request_t *r, edge_ctx_t *ctx, backend_t *backend);

/* ctx->backend is about to be dialled, for the first time; it may have become another member. 0:
 * there is none, or the configuration does not allow the request any more, and ctx->error says
 * so. */
ngx_uint_t edge_failover_dial(ngx_http_request_t *r, edge_ctx_t *ctx);

/* Put the next member, which is about to be dialled, in ctx->backend, in place of one that was not
 * reached. 0: as above, or the request has had its dials. */
ngx_uint_t edge_failover_next(ngx_http_request_t *r, edge_ctx_t *ctx);

/* The dial of ctx->backend failed; why, in words that live for ever. */
void edge_failover_failed(ngx_http_request_t *r, edge_ctx_t *ctx, const char *why);

/* The upstream is written to or has said something: a connection stands, be it a new one or one
 * that was kept. For each request, whatever its route leads to. */
void edge_failover_stands(ngx_http_request_t *r, edge_ctx_t *ctx);

/* Nothing is dialled any more: a trial that has no result is another request's. */
void edge_failover_leave(edge_ctx_t *ctx);

/* The request ends. */
void edge_failover_end(edge_ctx_t *ctx);

/* Write which members are passed over, for /metrics, up to end; returns the end of the text. */
u_char *edge_failover_metrics(u_char *p, u_char *end);
