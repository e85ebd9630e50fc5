/* A client's socket for OpenSSL (a BIO), and the server name and TLS settings of its handshake.
 *
 * A read that returns fewer bytes than asked for has emptied the socket, and later bytes raise an
 * event (epoll(7), "Questions and answers" 9). OpenSSL's own BIO reads again all the same: a
 * wasted system call for each request.
 *
 * OpenSSL writes one record at a time, of 16 KiB at most. Behind a full one mostly comes another:
 * the kernel is told so (MSG_MORE), and makes packets of several. What it keeps back for that is
 * pushed when the worker has done what it was at. */
#include "services/edge/tls/edge_bio.h"
#include "services/edge/tls/edge_recv.h"
#include "services/edge/tls/edge_tls_messages.h"
#include "common/base/invariant.h"

#include <netinet/tcp.h>

enum { RECORD_FULL = 16384 };   /* bytes of text; a record has more (RFC 8446 5.1) */

static int            type;
static BIO_METHOD    *method;
static edge_client_t  nobody;
static ngx_event_t *(*event_of)(ngx_connection_t *c);


static int
bio_read(BIO *bio, char *out, int size)
{
    ssize_t            n;
    edge_client_t     *client = BIO_get_data(bio);
    ngx_connection_t  *c = client->connection;

    BIO_clear_retry_flags(bio);
    if (c->recv == ngx_ssl_recv) {
        c->recv = edge_recv;   /* from the next read on: nginx sets its own behind the handshake */
    }
    if (!c->read->ready && !c->read->pending_eof && ngx_use_epoll_rdhup) {
        /* pending_eof: the end of file came with the last bytes, and raises no further event */
        BIO_set_retry_read(bio);
        return -1;
    }
    n = recv(c->fd, out, size, 0);
    if (n > 0 && client->on_read) {
        ngx_post_event(client->on_read, &ngx_posted_events);
    }
    if (n == 0) {
        BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
    } else if (n > 0 && n < size) {
        c->read->ready = 0;   /* until the next event */
    } else if (n < 0 && BIO_sock_should_retry((int) n)) {
        BIO_set_retry_read(bio);
    }
    return (int) n;
}


static void
on_push(ngx_event_t *event)
{
    int             on = 1;
    edge_client_t  *client = event->data;

    if (client->held) {
        client->held = 0;
        (void) setsockopt(client->connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
}


static int
bio_write(BIO *bio, const char *in, int size)
{
    ssize_t         n;
    edge_client_t  *client = BIO_get_data(bio);
    unsigned        is_full = size >= RECORD_FULL;

    BIO_clear_retry_flags(bio);
    n = send(client->connection->fd, in, size, is_full ? MSG_MORE : 0);
    if (n > 0) {
        client->written += n;
        client->held = is_full;
        if (is_full) {
            ngx_post_event(&client->push, &ngx_posted_events);
        }
    } else if (n < 0 && BIO_sock_should_retry((int) n)) {
        BIO_set_retry_write(bio);
    }
    return (int) n;
}


static int
bio_destroy(BIO *bio)
{
    edge_client_t  *client = BIO_get_data(bio);

    if (client && client->push.posted) {
        ngx_delete_posted_event(&client->push);
    }
    return 1;
}


static long
bio_ctrl(BIO *bio, int cmd, long number, void *out)
{
    edge_client_t  *client = BIO_get_data(bio);

    (void) number;
    switch (cmd) {
    case BIO_CTRL_FLUSH:
        return 1;
    case BIO_CTRL_EOF:
        return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
    case BIO_C_GET_FD:
        if (out) {
            *(int *) out = client->connection->fd;
        }
        return client->connection->fd;
    default:
        return 0;
    }
}


ngx_int_t
edge_bio_install(void)
{
    if (method == NULL) {
        type = BIO_get_new_index()|BIO_TYPE_SOURCE_SINK|BIO_TYPE_DESCRIPTOR;
        method = BIO_meth_new(type, "client");
    }
    return edge_tls_messages_install() && method && BIO_meth_set_read(method, bio_read)
           && BIO_meth_set_write(method, bio_write)
           && BIO_meth_set_ctrl(method, bio_ctrl)
           && BIO_meth_set_destroy(method, bio_destroy)
           ? NGX_OK : NGX_ERROR;
}


void
edge_bio_on_read(ngx_event_t *(*of)(ngx_connection_t *c))
{
    event_of = of;
}


edge_client_t *
edge_bio_attach(SSL *ssl, const char *name, size_t len)
{
    BIO               *bio = NULL;
    edge_client_t     *client;
    ngx_connection_t  *c = ngx_ssl_get_connection(ssl);

    client = ngx_palloc(c->pool, offsetof(edge_client_t, name) + len);
    if (client) {
        bio = BIO_new(method);
    }
    if (bio == NULL || !BIO_up_ref(bio)) {
        BIO_free(bio);
        return NULL;
    }
    INVARIANT(len < 256);   /* the caller's buffer for a folded name (RFC 1035) */
    client->connection = c;
    client->on_read = event_of ? event_of(c) : NULL;
    client->held = 0;
    client->written = 0;
    ngx_memzero(&client->push, sizeof(client->push));
    client->push.handler = on_push;
    client->push.data = client;
    client->push.log = c->log;
    client->name_len = len;
    ngx_memzero(client->profile, sizeof(client->profile));
    client->certificate = 0;
    client->had_edge = 0;
    client->table = NULL;
    client->revision = 0;
    ngx_memcpy(client->name, name, len);
    BIO_set_data(bio, client);
    BIO_set_init(bio, 1);
    SSL_set0_rbio(ssl, bio);
    SSL_set0_wbio(ssl, bio);
    edge_tls_messages_bound_one(ssl);
    return client;
}


edge_client_t *
edge_client(ngx_connection_t *c)
{
    BIO  *bio = c->ssl ? SSL_get_rbio(c->ssl->connection) : NULL;

    return bio && BIO_method_type(bio) == type ? BIO_get_data(bio) : &nobody;
}
