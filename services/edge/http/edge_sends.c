/* nginx sends each request at once, as soon as it has read and routed it. An upstream that is quick
 * sleeps before the next one comes, and waking it costs the worker about as much as the rest of the
 * send, for every request. So those that go over kept connections wait until all events of the turn
 * are handled and leave one close behind the other: the upstream is woken once and stays awake.
 *
 * Before nginx sends anything on a connection it asks whether it was made (getsockopt). One that is
 * kept was, and what has become of it since the send itself says. So nginx finds the request sent
 * already, and goes on from there: it keeps what the socket did not take, sends once more where
 * that failed, fails then, and dials. That is for GET and HEAD, which may be sent again: for others
 * nginx asks, because what fails behind a request that was sent ends it. Of those that could not be
 * sent again the kernel is asked, too, whether the upstream has ended the connection. */
#include "services/edge/http/edge_sends.h"

#include <poll.h>

static ngx_http_request_t  *asked;
static edge_ctx_t          *asked_ctx;   /* its own */


/* The request's head, in most cases: one buffer, for which send is less work than writev. */
static ngx_chain_t *
send_one(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    off_t       size;
    ssize_t     n;
    ngx_buf_t  *buf;

    buf = in ? in->buf : NULL;
    size = buf && ngx_buf_in_memory_only(buf) ? buf->last - buf->pos : 0;
    if (size == 0 || in->next || (limit && size > limit)) {
        return ngx_send_chain(c, in, limit);
    }
    n = c->send(c, buf->pos, (size_t) size);
    if (n == NGX_ERROR) {
        return NGX_CHAIN_ERROR;
    }
    if (n > 0) {
        buf->pos += n;
    }
    return n == size ? NULL : in;
}


static void
on_turn(ngx_event_t *event)
{
    ngx_connection_t     *c;
    ngx_http_request_t   *r = event->data;
    ngx_http_upstream_t  *u = r->upstream;

    c = u->peer.connection;
    if (u->request_sent) {
        return;   /* its connection's own write event came first */
    }
    if (c->send_chain == ngx_send_chain) {
        c->send_chain = send_one;
    }
    if ((r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD)) && u->request_bufs->next == NULL) {
        c->log->action = "sending request to upstream";
        u->request_sent = 1;
        (void) ngx_output_chain(&u->output, u->request_bufs);
    }
    c->write->handler(c->write);
}


void
edge_sends_note(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    asked = r;
    asked_ctx = ctx;
}


ngx_uint_t
edge_sends_is_idempotent(const ngx_http_request_t *r)
{
    return (r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD | NGX_HTTP_PUT | NGX_HTTP_DELETE
                         | NGX_HTTP_OPTIONS | NGX_HTTP_TRACE | NGX_HTTP_PROPFIND
                         | NGX_HTTP_PROPPATCH | NGX_HTTP_MKCOL | NGX_HTTP_COPY | NGX_HTTP_MOVE
                         | NGX_HTTP_UNLOCK)) != 0;
}


/* Whatever an upstream says on an idle connection ends it, as nginx has it (its keepalive module),
 * but for one of HTTP/2, which may send PING, and windows. With TLS nobody sees in the socket what
 * it says: that may be its end, behind which the kernel knows of none (RFC 8446 6.1). */
static ngx_uint_t
has_ended(const ngx_connection_t *c)
{
    struct pollfd  socket = { .fd = c->fd, .events = POLLIN|POLLRDHUP };

    if (poll(&socket, 1, 0) != 1) {
        return 0;
    }
    return asked_ctx->grpc == NULL || c->ssl || (socket.revents & ~POLLIN) != 0;
}


ngx_uint_t
edge_sends_can_go(const ngx_connection_t *c)
{
    return (edge_sends_is_idempotent(asked) && !asked->request_body_no_buffering)
           || !has_ended(c);
}


ngx_int_t
edge_sends_later(void)
{
    ngx_event_t  *event = &asked_ctx->send;

    if (asked_ctx->grpc || asked->request_body_no_buffering) {
        return NGX_DONE;
    }
    event->handler = on_turn;
    event->data = asked;
    event->log = asked->connection->log;
    ngx_post_event(event, &ngx_posted_events);
    return NGX_AGAIN;
}


void
edge_sends_forget(edge_ctx_t *ctx)
{
    if (ctx->send.posted) {
        ngx_delete_posted_event(&ctx->send);
    }
}
