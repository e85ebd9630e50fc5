/* nginx asks OpenSSL for more until it says that there is none, clears its queue of errors each
 * time, and asks the kernel how much there is when a buffer is full. What there is the BIO knows
 * (edge_bio.c): a read that returned less than it asked for has emptied the socket, and then there
 * is only what OpenSSL has kept of it. With that the head of a request, and a small body, take one
 * call of OpenSSL instead of two or three, and a full buffer no system call. What ends or breaks a
 * connection, and writes that a read has to wait for, are left to nginx.
 *
 * Upstreams have nginx's BIO, which knows nothing of that: there a read ends when OpenSSL has no
 * more, as ever, or when its turn is over. */
#include "services/edge/tls/edge_recv.h"
#include "services/edge/tls/edge_tls_messages.h"
#include "services/edge/worker/edge_vitals.h"

/* A record takes OpenSSL as long whether it has one byte or hundreds: so many of so few bytes each
 * are a turn. */
enum { RECORDS = 64, RECORD_FEW = 256 };


/* Does nothing of the connection wait in the kernel? Else an event will say so. */
static ngx_uint_t
is_socket_empty(const ngx_connection_t *c)
{
    return !c->read->ready && !c->read->pending_eof && ngx_use_epoll_rdhup;
}


/* Is it in a state that nginx alone knows how to leave? */
static ngx_uint_t
is_for_nginx(const ngx_connection_t *c, size_t size)
{
    return size == 0 || c->ssl->last == NGX_DONE || c->ssl->in_early || c->ssl->renegotiation
           || c->ssl->saved_write_handler || ERR_peek_error();
}


/* The next read says what ended this one. */
static ssize_t
return_first(ngx_connection_t *c, size_t got)
{
    c->read->eof = 0;
    c->read->error = 0;
    c->read->ready = 1;
    return (ssize_t) got;
}


/* nginx would leave it ready: who reads on while a client takes nothing asks again without end. */
static ssize_t
return_error(ngx_connection_t *c)
{
    c->read->error = 1;
    c->read->ready = 0;
    return NGX_ERROR;
}


/* The connection is no more, which is said once: what nginx reads next would be its end. */
static ssize_t
fail(ngx_connection_t *c, size_t got)
{
    c->ssl->no_wait_shutdown = 1;
    c->ssl->no_send_shutdown = 1;
    c->ssl->last = NGX_ERROR;
    return got ? return_first(c, got) : return_error(c);
}


static void
note_flood(const ngx_connection_t *c)
{
    ngx_uint_t   level = NGX_LOG_ERR;
    const char  *who = "the upstream";

    if (c->recv == edge_recv) {
        edge_vitals(ngx_worker)->flooding_clients++;
        level = NGX_LOG_INFO;
        who = "client";
    }
    ngx_log_error(level, c->log, 0,
                  "postern: %s sent too many TLS messages that carry nothing", who);
}


/* SSL_read returned n, which is not positive, behind so many bytes. */
static ssize_t
end_of_read(ngx_connection_t *c, int n, u_char *buf, size_t size, size_t got)
{
    SSL              *ssl = c->ssl->connection;
    ssize_t           more;
    const int         why = SSL_get_error(ssl, n);
    const ngx_err_t   err = ngx_errno;

    if (why == SSL_ERROR_WANT_READ) {
        c->read->ready = 0;
        c->ssl->last = NGX_AGAIN;
        return got ? (ssize_t) got : NGX_AGAIN;
    }
    if (ERR_peek_error()) {
        ngx_ssl_error(NGX_LOG_INFO, c->log, 0, "SSL_read() failed");
        return fail(c, got);
    }
    if (edge_tls_messages_were_too_many(ssl)) {
        note_flood(c);
        return fail(c, got);
    }
    if (why == SSL_ERROR_SYSCALL && !BIO_eof(SSL_get_rbio(ssl))) {
        ngx_connection_error(c, err, "recv() failed");
        return fail(c, got);
    }
    more = ngx_ssl_recv(c, buf + got, size - got);   /* OpenSSL says the same once more */
    if (got == 0) {
        return more == NGX_ERROR ? return_error(c) : more;
    }
    if (more == NGX_AGAIN) {
        return (ssize_t) got;
    }
    return more > 0 ? (ssize_t) got + more : return_first(c, got);
}


/* There may be more, but others have their turn before. */
static void
end_turn(ngx_event_t *rev)
{
    rev->available = 0;
    rev->ready = 0;
    if (rev->posted) {
        ngx_delete_posted_event(rev);
    }
    ngx_post_event(rev, &ngx_posted_next_events);
}


/* There may be more. Of what the kernel had when it was asked nginx reads no more at a time. */
static ssize_t
return_full(ngx_connection_t *c, size_t size)
{
    ngx_event_t  *rev = c->read;
    ngx_uint_t    is_empty = is_socket_empty(c);

    rev->ready = 1;
    if (rev->available >= 0) {
        rev->available -= (int) size;
        if (rev->available < 0) {
            end_turn(rev);
        }
    } else if (is_empty) {
        rev->available = 0;
    } else if (ngx_socket_nread(c->fd, &rev->available) == -1) {
        rev->error = 1;
        rev->ready = 0;
        ngx_connection_error(c, ngx_socket_errno, ngx_socket_nread_n " failed");
        return NGX_ERROR;
    }
    return (ssize_t) size;
}


ssize_t
edge_recv(ngx_connection_t *c, u_char *buf, size_t size)
{
    int     n;
    SSL    *ssl = c->ssl->connection;
    size_t  got = 0, records = 0;

    if (c->ssl->last == NGX_ERROR) {
        return return_error(c);
    }
    if (is_for_nginx(c, size)) {
        return ngx_ssl_recv(c, buf, size);
    }
    while (got < size) {
        n = SSL_read(ssl, buf + got, (int) (size - got));
        if (n <= 0) {
            return end_of_read(c, n, buf, size, got);
        }
        got += n;
        if (got < size && is_socket_empty(c) && !SSL_has_pending(ssl)) {
            c->ssl->last = NGX_AGAIN;
            return (ssize_t) got;
        }
        if (++records >= RECORDS && got < records * RECORD_FEW) {
            c->ssl->last = NGX_OK;
            end_turn(c->read);
            return (ssize_t) got;
        }
    }
    c->ssl->last = NGX_OK;
    return return_full(c, size);
}


/* nginx reads the head of an answer until it is whole, and asks for more without a look at whether
 * there may be any. */
static ssize_t
recv_upstream(ngx_connection_t *c, u_char *buf, size_t size)
{
    return c->read->ready || c->read->error ? edge_recv(c, buf, size) : NGX_AGAIN;
}


void
edge_recv_from_upstream(ngx_connection_t *c)
{
    if (c->recv == ngx_ssl_recv) {
        c->recv = recv_upstream;
    }
}
