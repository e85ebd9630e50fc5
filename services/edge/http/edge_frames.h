/* Clients of HTTP/2 that make nginx answer frames of theirs faster than they take the answers. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#if (NGX_HTTP_V2)

/* When frames were read: makes one of the updates of each stream's window where many frames wait.
 * Are there more that answer the client's than a connection may have? 1: counted, and the caller
 * ends the connection. */
ngx_uint_t edge_frames_are_too_many(ngx_http_v2_connection_t *h2c);

#endif
