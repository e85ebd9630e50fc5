/* What the head of an upstream's answer takes of a worker's memory until its request ends. */
#pragma once

#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/h2.h"

/* Bytes of a whole head of HTTP/1, with all copies that are made of it. */
size_t edge_answer_head(const ngx_http_request_t *r, const head_t *head);
/* The same of a block of HTTP/2, as much of it as has come: coded bytes. */
size_t edge_answer_block(const ngx_http_request_t *r, const h2_fields_t *fields, size_t coded);
/* Of the largest head of so many bytes, as it came. */
size_t edge_answer_memory_most(size_t bytes);

/* Charge so many bytes of the head, which are all that there are by now. Those of an ordinary one
 * cost nothing. 0: its client, or its account, has its portion, and ctx->error is set. */
ngx_uint_t edge_answer_charge(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes);
