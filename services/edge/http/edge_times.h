/* How long each module took with a request: its hooks on the way to the upstream and on the answer,
 * and how long it waited. For the event of the request alone: nothing is measured while nobody
 * wants events. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module.h"

struct pack;

/* Measure this request, if its event is wanted. */
void edge_times_begin(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Nanoseconds of a clock that only rises; 0: the request is not measured. */
uint64_t edge_times_now(const edge_ctx_t *ctx);
/* The module ran from *since, which edge_times_now or this function gave, until now: that becomes
 * *since, for the next module. */
void edge_times_ran(edge_ctx_t *ctx, ngx_uint_t module, uint64_t *since);
/* The module waited from then until now. */
void edge_times_waited(edge_ctx_t *ctx, module_id_t module, uint64_t since);
/* Write the fields of the event. */
void edge_times_describe(struct pack *pk, const edge_ctx_t *ctx);
