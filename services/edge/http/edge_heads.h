/* Heads of requests that have not come whole yet: their memory, and how many fields they have. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

/* Once, while the configuration is read. */
void edge_heads_install(void);
/* A connection of a client was accepted, and nothing of a request was read: watch the heads that
 * come over it until its pool is destroyed. NGX_ERROR: no memory. */
ngx_int_t edge_heads_watch(ngx_connection_t *c);
/* The head is whole, or the request is refused, and about to be charged by itself: what its head
 * was charged is given back. */
void edge_heads_give(ngx_http_request_t *r);
/* Has the request more fields than it may have, HEAD_FIELDS_MAX? */
ngx_uint_t edge_heads_is_too_long(ngx_http_request_t *r);
