#pragma once

#include "services/edge/http/edge_ctx.h"

/* Write the event of a request that ended into the ring; for the log phase. */
void edge_event_log(ngx_http_request_t *r, edge_ctx_t *ctx);
