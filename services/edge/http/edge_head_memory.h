/* What a request's head takes of memory. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Bytes of a head in memory that is not whole yet, as much of it as has come. */
size_t edge_head_memory_so_far(ngx_http_request_t *r);
/* Bytes of a whole head, with all copies that are made of it until it has gone upstream, whether or
 * not it goes there. */
size_t edge_head_memory(ngx_http_request_t *r);
