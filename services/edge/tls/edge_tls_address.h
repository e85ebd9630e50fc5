/* Certificates of upstreams that are known by their IP address. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

/* Before the handshake of a connection to an upstream: it fails unless the certificate is by a
 * known authority and for this address (IPv4, or IPv6 without brackets), which is one of its
 * subject alternative names of the kind iPAddress (RFC 5280 4.2.1.6). No server name is sent (RFC
 * 6066 3). NGX_ERROR: nothing is known of the connection; it must not be used. */
ngx_int_t edge_tls_address_demand(ngx_connection_t *c, const char *address);
/* Behind that handshake: was there a certificate at all, and is it valid? With ciphers that know
 * none, which an operator may set, OpenSSL has nothing to verify. */
ngx_uint_t edge_tls_address_is_verified(const ngx_connection_t *c);
