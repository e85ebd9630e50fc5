/* Reads of the response's body from the upstream, and of both sides of a connection that has become
 * a WebSocket; the large buffers that are lent for them. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* In a worker, before it has requests. */
void edge_reader_start(ngx_cycle_t *cycle);
/* Wrap nginx's filter of what was read; called when the peer is initialised. */
void edge_reader_watch(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Wrap nginx's handlers of a connection that its proxy has just made a WebSocket of; the second
 * call does nothing. NGX_ERROR: there is no memory for what the client has sent already. */
ngx_int_t edge_reader_watch_upgraded(ngx_http_request_t *r);
/* nginx has ended the request, and keeps its memory for frames that are on their way: what was lent
 * for its body is taken back, as soon as none of these refers to it. */
void edge_reader_stop(edge_ctx_t *ctx);
/* When the request's memory is freed. */
void edge_reader_end(edge_ctx_t *ctx);
/* The request's connection to its upstream stands, its handshake of TLS included, if it has one: of
 * records with next to nothing in them only some are read in a turn from now on. */
void edge_reader_stands(ngx_connection_t *upstream);
