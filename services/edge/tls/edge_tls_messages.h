/* What a TLS peer may send that carries nothing: messages of the handshake's kind behind it. */
#pragma once

#include <openssl/ssl.h>

/* In the master, before the first handshake. False: no memory. */
int edge_tls_messages_install(void);

/* Have connections of this context, and those of an SSL, end by themselves when their peer sends
 * too many. edge_tls_messages_were_too_many tells that this is why SSL_read said that it did. */
void edge_tls_messages_bound(SSL_CTX *ctx);
void edge_tls_messages_bound_one(SSL *ssl);
int edge_tls_messages_were_too_many(const SSL *ssl);
