/* What a request's body takes of memory while it is passed on. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Bytes of the buffer that nginx takes for it as soon as it is read, and of what stands before that
 * in its place: what was announced, and no more than is read at once, which is for a body of no
 * announced length. 0: no body comes, or it is there with the head. */
size_t edge_body_memory(const ngx_http_request_t *r);
/* The same once the body has come to its end: what of the buffer has been written to. */
size_t edge_body_memory_whole(const ngx_http_request_t *r);
