/* The pieces of a response's body that one read brings: as few of nginx's buffers as the bytes
 * need, however many chunks of HTTP/1.1 or frames of gRPC they came in. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Takes the place of nginx's filter for bodies in chunks: bytes more lie behind the last of
 * r->upstream->buffer. NGX_OK, or NGX_ERROR: the framing is wrong (it is logged), or there is no
 * memory. */
ngx_int_t edge_pieces_chunked(ngx_http_request_t *r, ngx_http_chunked_t *chunked, ssize_t bytes);
/* Calls nginx's filter of gRPC, a part of what was read after the other; returns what the last call
 * did. */
ngx_int_t edge_pieces_grpc(ngx_http_request_t *r, ngx_int_t (*filter)(void *data, ssize_t bytes),
                           void *data, ssize_t bytes);
/* Of what waits to be sent (u->out_bufs). */
ngx_uint_t edge_pieces_count(const ngx_http_upstream_t *u);
