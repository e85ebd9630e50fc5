/* gRPC: requests that go over HTTP/2 to the upstream, through nginx's gRPC module. */
#pragma once

#include "services/edge/http/edge_ctx.h"

/* Does the client ask for gRPC: POST over HTTP/2 with the content type application/grpc, alone or
 * followed by "+" or ";"? application/grpc-web is another protocol, which goes over HTTP/1.1. */
ngx_uint_t edge_grpc_is_asked(ngx_http_request_t *r);
/* Has the upstream of a call said anything by HTTP/2 to it? */
ngx_uint_t edge_grpc_was_answered(const edge_ctx_t *ctx);
/* Let the request be one of gRPC; sets ctx->grpc. */
ngx_int_t edge_grpc_begin(ngx_http_request_t *r, edge_ctx_t *ctx);
/* Wrap what nginx's gRPC module does with the upstream's bytes; called when the peer is
 * initialised, before edge_reader_watch. */
void edge_grpc_watch(ngx_http_request_t *r, edge_ctx_t *ctx);
/* The connection that the call is about to go over has TLS or not, which need not be as when nginx
 * wrote the request's :scheme (RFC 9113 8.3.1). After edge_grpc_watch. */
void edge_grpc_set_scheme(edge_ctx_t *ctx, ngx_uint_t tls);
/* nginx's writer is about to get these buffers of the request, and has had them: around each of its
 * calls. The upstream may be silent for the whole timeout from here on. NGX_OK | NGX_ERROR. */
ngx_int_t edge_grpc_begin_write(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_chain_t *in);
void edge_grpc_end_write(ngx_http_request_t *r, edge_ctx_t *ctx);
/* When the request's memory is freed. */
void edge_grpc_end(edge_ctx_t *ctx);
