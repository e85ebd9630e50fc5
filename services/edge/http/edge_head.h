/* The head of an upstream's response, checked before nginx's proxy reads it. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Replace the upstream's process_header and reinit_request; call when r->upstream is set up. */
void edge_head_watch(ngx_http_request_t *r, edge_ctx_t *ctx);
