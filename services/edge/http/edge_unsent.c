/* A connection that is closed leaves the kernel with what its peer has not taken, for minutes as
 * long as the peer says that it has no room, at nobody's expense: one client could leave any number
 * of such sockets behind, by requests to an application that does not read them.
 *
 * So a request that was given up, because its client has gone, or the time is over, or it will
 * never be whole, takes what is unsent with it: its connection is reset. A few bytes may still
 * arrive, as of a call whose client never waits for the answer, but not for long. An upstream that
 * has answered in whole gets a FIN, and has as long for the rest as it would have had before; where
 * that is more than a few bytes they cost the client and the account (edge_unsent_left.c), and
 * those that have their portions cannot leave them. */
#include "services/edge/http/edge_unsent.h"
#include "services/edge/http/edge_unsent_left.h"

#include <linux/sockios.h>
#include <netinet/tcp.h>
#include <sys/ioctl.h>

enum {
    UNSENT_MAX = 16 << 10,   /* bytes that may still arrive after the request was given up */
    UNSENT_MS = 5000         /* in which some of these must */
};


int
edge_unsent_bytes(const ngx_connection_t *c)
{
    int  bytes = 0;

    return ioctl(c->fd, SIOCOUTQ, &bytes) == 0 ? bytes : 0;
}


void
edge_unsent_reset(ngx_connection_t *c)
{
    struct linger  linger = { 1, 0 };

    if (setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof(linger)) == -1) {
        ngx_log_error(NGX_LOG_ALERT, c->log, ngx_socket_errno,
                      "postern: setsockopt(SO_LINGER) failed");
    }
    if (c->ssl) {   /* no goodbye, for which a full socket has no room: nginx would forget its TLS */
        c->ssl->no_wait_shutdown = 1;
        c->ssl->no_send_shutdown = 1;
    }
}


/* The kernel ends the connection when its peer acknowledges nothing more for so long, be it that it
 * is silent or that it has no room. */
static void
wait_for(const ngx_connection_t *c, ngx_msec_t wait)
{
    unsigned  ms = (unsigned) wait;

    if (setsockopt(c->fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &ms, sizeof(ms)) == -1) {
        ngx_log_error(NGX_LOG_ALERT, c->log, ngx_socket_errno,
                      "postern: setsockopt(TCP_USER_TIMEOUT) failed");
    }
}


/* Was edge_unsent_reset called for it? */
static ngx_uint_t
is_to_be_reset(const ngx_connection_t *c)
{
    socklen_t      len;
    struct linger  linger = { 0, 0 };

    len = sizeof(linger);
    return getsockopt(c->fd, SOL_SOCKET, SO_LINGER, &linger, &len) == 0 && linger.l_onoff;
}


void
edge_unsent_leave(const ngx_connection_t *c)
{
    if (c->idle && edge_unsent_bytes(c)) {
        wait_for(c, UNSENT_MS);
    }
}


/* Has the upstream had all of the request, and has all of its answer come? nginx knows no length of
 * an answer that ends with its connection. What a tunnel ends with is decided already: a reset, or
 * all that its client has sent. So it is with a WebSocket that its client has ended in order. */
static ngx_uint_t
was_whole(const ngx_http_request_t *r, const edge_ctx_t *ctx, const ngx_connection_t *c)
{
    const ngx_http_upstream_t  *u = r->upstream;

    return ctx->tunnel
           || (u->upgrade && r->connection->read->eof && !r->connection->read->error)
           || (u->request_body_sent && u->headers_in.status_n
               && (u->length == 0 || r->header_only || (u->length == -1 && c->read->eof)));
}


void
edge_unsent_end(const ngx_http_request_t *r, const edge_ctx_t *ctx, ngx_connection_t *c)
{
    int  unsent = c ? edge_unsent_bytes(c) : 0;

    if (unsent == 0 || is_to_be_reset(c)) {
        return;
    }
    if (was_whole(r, ctx, c)
        && (unsent <= UNSENT_MAX || edge_unsent_left_keep(ctx, c, unsent)))
    {
        wait_for(c, r->upstream->conf->send_timeout);
    } else if (unsent <= UNSENT_MAX) {
        wait_for(c, UNSENT_MS);
    } else {
        edge_unsent_reset(c);
    }
}
