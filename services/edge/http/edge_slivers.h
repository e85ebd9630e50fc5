/* Clients of HTTP/2 that let an answer through in slivers. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* How many bytes the client lets through of this answer: the window of its stream, which is
 * negative where the client has narrowed it. 0: it is not of HTTP/2. */
off_t edge_slivers_window(ngx_http_request_t *r);
/* Call when filters have sent of an answer. open is what edge_slivers_window said before. Where the
 * client opens its windows by slivers alone its connection ends: counted. */
void edge_slivers_sent(ngx_http_request_t *r, off_t open);
