/* The head of an answer, before nginx's proxy reads it. */
#pragma once

#include "services/edge/http/edge_ctx.h"

void edge_head_watch(ngx_http_request_t *r, edge_ctx_t *ctx);
