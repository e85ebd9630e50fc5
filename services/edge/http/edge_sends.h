/* Requests that go over kept connections are sent when the other events of the turn of the event
 * loop have been handled. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* The request for which a connection is looked for among those that are kept. */
void edge_sends_note(ngx_http_request_t *r, edge_ctx_t *ctx);

/* May it be sent twice (RFC 9110 9.2.2)? Those that the registry of methods calls idempotent, of
 * which nginx knows the name: what a method does that nobody here knows, nobody here can say. */
ngx_uint_t edge_sends_is_idempotent(const ngx_http_request_t *r);

/* One was found, for the request that was noted last. False: the upstream has ended it, and the
 * request is one that nginx does not send again once it has begun to: its method is not idempotent,
 * or its body is still being read. Others find out when they are sent. */
ngx_uint_t edge_sends_can_go(const ngx_connection_t *c);

/* One was found, for the request that was noted last. NGX_AGAIN: it is sent later in this turn, and
 * nginx is to take the connection for one that is not ready yet. NGX_DONE: nginx sends it now: a
 * call of gRPC, and one whose body is still being read, which waits by itself (edge_writer.c). */
ngx_int_t edge_sends_later(void);

/* The request leaves its connection: it is not sent there any more. */
void edge_sends_forget(edge_ctx_t *ctx);
