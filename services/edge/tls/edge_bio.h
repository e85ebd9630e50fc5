/* A client's socket under OpenSSL, for reading. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_openssl.h>

/* A connection, and the name and the TLS settings that its handshake was for; name folded;
 * empty: without TLS. */
typedef struct {
    ngx_connection_t *connection;
    unsigned char profile[32]; /* of the edge then (table.h); zeros: the name had none */
    size_t name_len;
    char name[];
} edge_client_t;
ngx_int_t edge_bio_install(void);
/* In the client hello's callback. NULL: no memory. */
edge_client_t *edge_bio_attach(SSL *ssl, const char *name, size_t len);
/* Before that callback, and without TLS: one without a name. */
edge_client_t *edge_client(ngx_connection_t *c);
