/* What an answer that its client does not take costs that client. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Initialise in a worker, before it has requests. */
void edge_stall_start(ngx_cycle_t *cycle);
/* Something of the answer was sent, or tried to be: waits says whether more of it waits for the
 * client now. */
void edge_stall_sent(edge_ctx_t *ctx, ngx_uint_t waits);
/* The request ends, or nothing of its upstream's is left. */
void edge_stall_end(edge_ctx_t *ctx);
