/* TLS session tickets, with keys that rotate while the edge runs (tickets.h). */
#pragma once

#include "services/edge/tls/tickets.h"

#include <ngx_config.h>
#include <ngx_core.h>
#include <openssl/ssl.h>

/* The message of a helper to its worker (LINK_TICKETS). */
typedef struct {
    int64_t    since;    /* seconds since 1970: when the current key began to seal */
    tickets_t  tickets;
} edge_tickets_t;

/* edge_ticket_file.c, in a helper: check the file, and rotate its keys when due. NGX_OK: *out has
 * new keys, which the caller wipes | NGX_DECLINED: there are no usable keys any more | NGX_AGAIN:
 * nothing new. */
ngx_int_t edge_ticket_file_look(edge_tickets_t *out);

/* edge_tickets.c, in a worker */

/* In the master: let these keys seal and open the tickets of a context. NGX_OK | NGX_ERROR */
ngx_int_t edge_tickets_install(SSL_CTX *ctx);

/* Use the keys in frame, an edge_tickets_t, and wipe the frame. Any other length: drop all keys. */
void edge_tickets_take(ngx_str_t *frame);

/* In the client hello's callback: without a usable key no ticket is announced. */
void edge_tickets_greet(SSL *ssl);
