/* Requests, bytes and errors of upstreams by route (worker/tally.h), for /metrics. */
#pragma once

#include "services/edge/http/edge_ctx.h"

enum { EDGE_TALLY_ROUTES_MAX = 10000 };

/* While the configuration is read: ask nginx for the memory that workers share. */
ngx_int_t edge_tally_install(ngx_conf_t *cf);

/* A version of a route is applied: find its place. A route of the table in force goes: give its
 * place back. Another table is in force: give back the places of all routes that it does not
 * have. */
void edge_tally_add_route(route_t *route);
void edge_tally_drop_route(const route_t *route);
void edge_tally_sweep(const table_t *table);

/* A request that has ended; one without a route is not counted here. */
void edge_tally_count(ngx_http_request_t *r, edge_ctx_t *ctx);

/* Bytes that edge_tally_metrics writes at most, now. */
size_t edge_tally_bytes(void);
/* Write what /metrics has of routes, up to end; returns the end of the text. */
u_char *edge_tally_metrics(u_char *p, u_char *end);
