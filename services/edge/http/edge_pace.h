/* How fast clients take their answers: those that take next to nothing are cut off. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/worker/edge_conf.h"

/* At the end of the configuration: times are the first server's send_timeout and
 * client_body_timeout. */
void edge_pace_check(ngx_conf_t *cf, edge_conf_t *conf);
/* Initialise in a worker, before it has requests. */
void edge_pace_start(ngx_cycle_t *cycle);
/* Watch a request until its memory is freed. */
void edge_pace_begin(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_pace_end(edge_ctx_t *ctx);
/* End the answer of a client that took fewer than so many bytes of it in ms; counted. ctx may be
 * gone afterwards. */
void edge_pace_cut(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes, ngx_msec_t ms);
/* Something was sent, or tried to be. */
void edge_pace_sent(ngx_http_request_t *r, edge_ctx_t *ctx);
