/* How fast clients send bodies of requests: those that send next to nothing are cut off. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Initialise in a worker, before it has requests. */
void edge_upload_start(ngx_cycle_t *cycle);
/* Something of the body was read, and is counted in ctx->body.received. */
void edge_upload_received(edge_ctx_t *ctx);
/* The upstream takes no more of it for now. */
void edge_upload_blocked(edge_ctx_t *ctx);
/* The request ends. */
void edge_upload_end(edge_ctx_t *ctx);
