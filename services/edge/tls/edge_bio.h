/* A client's socket for OpenSSL. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>
#include <ngx_event_openssl.h>

/* A connection, and the server name and TLS settings of its handshake. name is folded, and empty on
 * a connection without TLS. */
typedef struct {
    ngx_connection_t *connection;
    ngx_event_t *on_read;      /* posted when something has come; NULL: nobody asks for it */
    ngx_event_t push;          /* posted when the kernel keeps bytes back */
    unsigned held : 1;         /* it does: the last that was written was to be followed by more */
    off_t written;             /* bytes that its socket has accepted, as they are on the wire */
    unsigned char profile[32]; /* of the edge at that time (table.h); zeros: the name had no edge */
    uint64_t certificate;      /* of the name at that time: edge_tls_certificate */
    unsigned had_edge : 1;
    const void *table; /* and revision, for which the two were last compared */
    int64_t revision;
    size_t name_len;
    char name[];
} edge_client_t;

/* In the master, before the first handshake. NGX_OK | NGX_ERROR */
ngx_int_t edge_bio_install(void);

/* Once, in the master: the event that is posted each time when bytes of a connection were read from
 * its socket. of may return NULL; its event lives as long as the connection. */
void edge_bio_on_read(ngx_event_t *(*of)(ngx_connection_t *c));

/* In the client hello's callback: replace the connection's BIO. name is folded, len bytes, and
 * copied. The result lives as long as the connection. NULL: no memory. */
edge_client_t *edge_bio_attach(SSL *ssl, const char *name, size_t len);

/* The handshake's data of a connection; one without a name before that callback and without TLS.
 * Borrowed, never NULL. */
edge_client_t *edge_client(ngx_connection_t *c);
