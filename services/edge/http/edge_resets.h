/* Clients of HTTP/2 that begin streams and reset them. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* In the log phase of each request, with or without a context. Where its client has reset it, as it
 * has most streams of its connection, the connection takes no more of them: counted. */
void edge_resets_note(ngx_http_request_t *r);
