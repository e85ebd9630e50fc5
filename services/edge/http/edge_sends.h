/* Requests that go over kept connections are sent when the other events of the turn of the event
 * loop have been handled. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* The request for which a connection is looked for among those that are kept. */
void edge_sends_note(ngx_http_request_t *r, edge_ctx_t *ctx);

/* One was found, for the request that was noted last. NGX_AGAIN: it is sent later in this turn, and
 * nginx is to take the connection for one that is not ready yet. NGX_DONE: nginx sends it now: a
 * call of gRPC, and one whose body is still being read, which waits by itself (edge_writer.c). */
ngx_int_t edge_sends_later(void);

/* The request leaves its connection: it is not sent there any more. */
void edge_sends_forget(edge_ctx_t *ctx);
