/* Requests that are being served, judged again when the configuration has changed. */
#pragma once

#include "services/edge/http/edge_ctx.h"

void edge_streams_start(ngx_cycle_t *cycle);
void edge_streams_add(ngx_http_request_t *r, edge_ctx_t *ctx);
void edge_streams_remove(edge_ctx_t *ctx);
void edge_streams_changed(void);
/* The connection takes no request after this one. */
void edge_streams_last(ngx_http_request_t *r);
