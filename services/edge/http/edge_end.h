/* Ends requests that the configuration no longer allows. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Initialise in a worker, before it has requests. */
void edge_end_start(ngx_cycle_t *cycle);
/* End a request that is being served: with the page of error code where no response has begun, else
 * by cutting the response, which takes along a connection of HTTP/2 whose client does not take what
 * was queued before. ctx may have been freed when this returns. */
void edge_end_request(edge_ctx_t *ctx, ngx_uint_t code);
/* Cut an answer that has begun because of code, but nothing else: with HTTP/2 the end of the stream
 * may have to wait for what its connection carries. ctx may have been freed when this returns. */
void edge_end_answer(edge_ctx_t *ctx, ngx_uint_t code);
/* End the request by force in 400 ms, if its client has not taken the rest of its answer then. */
void edge_end_soon(edge_ctx_t *ctx);
/* Call when the request's memory is freed. */
void edge_end_forget(edge_ctx_t *ctx);
/* Make this the connection's last request: no keep-alive, or GOAWAY, after which those that the
 * client had sent before it read that are served as well (edge_goaway.h). */
void edge_end_connection(ngx_http_request_t *r);
