/* The answer of an http_response backend. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Content handler: sends what ctx->backend, an http_response one, says. */
ngx_int_t edge_answer(ngx_http_request_t *r);
