#pragma once

#include "services/edge/http/edge_ctx.h"

/* The event of a request that ended. */
void edge_event_log(ngx_http_request_t *r, edge_ctx_t *ctx);
