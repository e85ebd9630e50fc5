/* Interim responses (1xx) of upstreams. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Pass one on, whose head ctx->head.scan was read from, if the client's protocol has them and no
 * output is waiting: they are hints, worth nothing when late. */
void edge_interim_pass(ngx_http_request_t *r, edge_ctx_t *ctx, const char *head);
