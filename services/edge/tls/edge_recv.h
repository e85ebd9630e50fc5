/* Reads from a client's connection with TLS, in place of nginx's own. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_openssl.h>

/* As ngx_ssl_recv, for a connection whose BIO is edge_bio.h's: bytes read | 0 at the end |
 * NGX_AGAIN | NGX_ERROR. */
ssize_t edge_recv(ngx_connection_t *c, u_char *buf, size_t size);
