/* Reads from connections with TLS, in place of nginx's own. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_openssl.h>

/* As ngx_ssl_recv, for a connection whose BIO is edge_bio.h's: bytes read | 0 at the end |
 * NGX_AGAIN | NGX_ERROR. */
ssize_t edge_recv(ngx_connection_t *c, u_char *buf, size_t size);

/* Have a connection to an upstream read by that, too: one with TLS whose handshake is over, else
 * nothing changes. Reads return NGX_AGAIN until its next event when they have had their turn. */
void edge_recv_from_upstream(ngx_connection_t *c);
