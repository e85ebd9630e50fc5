/* GOAWAY of HTTP/2 (RFC 9113 6.8), which nginx itself sends only when it closes a connection, or
 * for its last request (keepalive_requests). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>

#if (NGX_HTTP_V2)

/* Ask the client to begin no stream more, and take no more of them in 20 s: what was on its way
 * meanwhile is served, and the connection ends once no request is left. The frame is queued, and
 * goes with the next that is sent. A connection that ends already stays as it is. */
void edge_goaway_begin(ngx_http_v2_connection_t *h2c);
/* Take no more streams from now on, and say so: the frame is queued as above, and the connection
 * ends once no request is left. Once for a connection: h2c->goaway says that it was done. */
void edge_goaway_send(ngx_http_v2_connection_t *h2c);

#endif
