/* TLS session tickets: keys that come and go while the edge runs (tickets.h). */
#pragma once

#include "services/edge/tls/tickets.h"

#include <ngx_config.h>
#include <ngx_core.h>
#include <openssl/ssl.h>

/* What a helper tells its worker. */
typedef struct {
    int64_t    since;    /* when the key that seals began to */
    tickets_t  tickets;
} edge_tickets_t;

/* edge_ticket_file.c, in a helper: what the file has now. NGX_OK: other keys than the last time,
 * which the caller wipes | NGX_DECLINED: there are none that may be used | NGX_AGAIN: nothing
 * new. */
ngx_int_t edge_ticket_file_look(edge_tickets_t *out);

/* edge_tickets.c, in a worker */
ngx_int_t edge_tickets_install(SSL_CTX *ctx);   /* in the master */
/* An edge_tickets_t of the helper's, which is wiped; of no length: there are no keys. */
void edge_tickets_take(ngx_str_t *frame);
/* At a client's hello: without a key no ticket is promised. */
void edge_tickets_greet(SSL *ssl);
