/* IP restrictions of accounts, of type endpoints: who may not use any edge of an account is told so
 * before anything is said of its routes. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Counters of the module ip_restriction, which names them. */
typedef enum {
    EDGE_RESTRICTION_DENIED, /* requests that an account's restriction denied */
    EDGE_RESTRICTION_TOLD    /* that it would have denied, were it enforced */
} edge_restriction_count_t;

/* Judge a request to this edge when it comes: 0, or the error of its page. Then ctx says who denied
 * it, for the event, and the log has a line. */
ngx_uint_t edge_restriction_begin(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge);
/* May a request that is being served go on, after a change? 0, or the error with which it ends. */
ngx_uint_t edge_restriction_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge);
