#include "services/edge/modules/edge_carry.h"
#include "services/edge/modules/edge_parting.h"

enum {
    SHARED = 64 << 10,
    HEAD = 4,   /* of a frame with less than 64 KiB, in front of what was read */
    READS = 8   /* in each direction; then other requests have their turn */
};

static u_char  shared[SHARED];


/* ---- to the client ---- */

/* Makes the next control frame, behind what has been sent. False: there is none. */
static ngx_uint_t
next_control(edge_converter_t *self)
{
    if (self->leave == EDGE_LEAVE_ON_ITS_WAY) {
        self->leave = EDGE_LEAVE_SENT;
    }
    if (self->leave == EDGE_LEAVE_SENT) {
        return 0;   /* nothing comes behind a close frame */
    }
    self->control_at = 0;
    if (self->pong_due) {
        self->pong_due = 0;
        self->control_len = websocket_write_control(self->control,
                                                    WEBSOCKET_IS_PONG,
                                                    self->pong, self->pong_len);
        return 1;
    }
    if (self->leave == EDGE_LEAVE_DUE) {
        self->leave = EDGE_LEAVE_ON_ITS_WAY;
        self->control_len = websocket_write_close(self->control, self->code,
                                                  self->reason);
        return 1;
    }
    self->control_len = 0;
    return 0;
}


static ngx_int_t
send_control(ngx_connection_t *c, edge_converter_t *self)
{
    ssize_t  n;

    while (self->control_at < self->control_len) {
        if (!c->write->ready) {
            return NGX_AGAIN;
        }
        n = c->send(c, self->control + self->control_at,
                    self->control_len - self->control_at);
        if (n == NGX_AGAIN || n == 0) {
            return NGX_AGAIN;
        }
        if (n < 0) {
            return NGX_ERROR;
        }
        self->control_at += n;
        self->to_client.moved = 1;
    }
    return NGX_OK;
}


/* The 101, which nginx may have buffered: nothing else goes that way, so the 16 KiB that it has for
 * it are given back. */
static ngx_int_t
flush_head(ngx_http_request_t *r, edge_converter_t *self)
{
    ngx_connection_t  *c = r->connection;

    if (self->head_sent) {
        return NGX_OK;
    }
    if ((r->out || c->buffered)
        && ngx_http_output_filter(r, NULL) == NGX_ERROR)
    {
        return NGX_ERROR;
    }
    if (r->out || c->buffered) {
        return NGX_AGAIN;
    }
    self->head_sent = 1;
    if (c->ssl) {
        ngx_ssl_free_buffer(c);
    }
    return NGX_OK;
}


/* Counts the payload that has gone: what is held ends with the part of it that has not. */
static void
count_sent(ngx_http_request_t *r, edge_converter_t *self)
{
    size_t       left = edge_held_left(&self->to_client);
    edge_ctx_t  *ctx = edge_ctx(r);

    left = ngx_min(left, self->unsent);
    ctx->body.given += self->unsent - left;
    self->unsent = left;
}


/* NGX_OK: the client has got all that is due. */
static ngx_int_t
flush_client(ngx_http_request_t *r, edge_converter_t *self)
{
    ngx_int_t  rc;

    if (self->client_deaf) {
        return NGX_OK;
    }
    rc = flush_head(r, self);
    if (rc == NGX_OK) {
        rc = edge_held_flush(&self->to_client, r->connection);
        count_sent(r, self);
    }
    while (rc == NGX_OK) {
        rc = send_control(r->connection, self);
        if (rc == NGX_OK && !next_control(self)) {
            return NGX_OK;
        }
    }
    return rc;
}


/* ---- from the upstream ---- */

/* NGX_OK: there may be more | NGX_AGAIN: not now | NGX_ERROR: the client is gone. */
static ngx_int_t
read_upstream(ngx_http_request_t *r, edge_converter_t *self)
{
    size_t             head;
    u_char             start[WEBSOCKET_HEAD_MAX], *frame;
    ssize_t            n;
    ngx_int_t          rc;
    ngx_connection_t  *c = r->upstream->peer.connection;

    if (!c->read->ready) {
        return NGX_AGAIN;
    }
    n = c->recv(c, shared + HEAD, edge_held_room(edge_ctx(r), SHARED - HEAD));
    if (n == NGX_AGAIN) {
        return NGX_AGAIN;
    }
    if (n < 0) {
        edge_parting_fail_upstream(r, self);
        return NGX_AGAIN;
    }
    if (n == 0) {
        self->upstream_ended = 1;
        return NGX_AGAIN;
    }
    if (self->client_deaf) {
        return NGX_OK;
    }
    head = websocket_write_head(start, WEBSOCKET_BINARY, n);
    frame = shared + HEAD - head;
    ngx_memcpy(frame, start, head);
    rc = edge_held_send(&self->to_client, edge_ctx(r), r->connection, frame, head + n);
    self->unsent = rc == NGX_ERROR ? 0 : n;
    count_sent(r, self);
    return rc;
}


static ngx_int_t
from_upstream(ngx_http_request_t *r, edge_converter_t *self, ngx_uint_t *more)
{
    ngx_int_t   rc = NGX_OK;
    ngx_uint_t  i;

    for (i = 0; rc == NGX_OK && !self->upstream_ended
                && self->leave == EDGE_LEAVE_NOT; i++)
    {
        if (i == READS) {
            *more = 1;
            return NGX_OK;
        }
        rc = read_upstream(r, self);
    }
    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/* ---- from the client ---- */

/* What came behind the handshake's head stands in nginx's buffer. */
static ssize_t
recv_client(ngx_http_request_t *r)
{
    size_t             len;
    ngx_buf_t         *b = r->header_in;
    ngx_connection_t  *c = r->connection;

    if (b->pos < b->last) {
        len = ngx_min((size_t) (b->last - b->pos), SHARED);
        ngx_memcpy(shared, b->pos, len);
        b->pos += len;
        return len;
    }
    return c->read->ready ? c->recv(c, shared, edge_held_room(edge_ctx(r), SHARED))
                          : NGX_AGAIN;
}


/* The answer to the last ping is enough (RFC 6455 5.5.3), so that pings take no memory. */
static void
keep_pong(edge_converter_t *self)
{
    self->pong_len = self->decoder.control_len;
    ngx_memcpy(self->pong, self->decoder.control, self->pong_len);
    self->pong_due = 1;
}


static void
give_upstream(ngx_http_request_t *r, edge_converter_t *self, u_char *bytes,
    size_t len)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    ctx->body.received += len;
    if (len && !self->upstream_deaf
        && edge_held_send(&self->to_upstream, ctx, r->upstream->peer.connection, bytes, len)
           == NGX_ERROR)
    {
        edge_parting_fail_upstream(r, self);
    }
}


/* The same results as of read_upstream. */
static ngx_int_t
read_client(ngx_http_request_t *r, edge_converter_t *self)
{
    ssize_t            n = recv_client(r);
    websocket_event_t  event;
    websocket_input_t  input;

    if (n == NGX_AGAIN) {
        return NGX_AGAIN;
    }
    if (n <= 0) {
        return NGX_ERROR;
    }
    input = (websocket_input_t) { shared, shared + n, shared };
    do {
        event = websocket_read(&self->decoder, &input);
        if (event == WEBSOCKET_PING) {
            keep_pong(self);
        }
    } while (event == WEBSOCKET_PING);
    give_upstream(r, self, shared, input.out - shared);
    if (self->failed) {
        return NGX_AGAIN;
    }
    if (event == WEBSOCKET_BROKEN) {
        edge_parting_fail(r, self, self->decoder.code, "the client broke RFC 6455");
    }
    self->client_closed = event == WEBSOCKET_CLOSE;
    return NGX_OK;
}


static ngx_int_t
from_client(ngx_http_request_t *r, edge_converter_t *self, ngx_uint_t *more)
{
    ngx_int_t   rc = NGX_OK;
    ngx_uint_t  i;

    for (i = 0; rc == NGX_OK && !self->client_closed && !self->failed
                && self->to_upstream.start == NULL; i++)
    {
        if (i == READS) {
            *more = 1;
            return NGX_OK;
        }
        rc = read_client(r, self);
    }
    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}


/* ---- both ---- */

/* Carries what can be carried. NGX_ERROR: the client is gone without a close frame. */
ngx_int_t
edge_carry(ngx_http_request_t *r, edge_converter_t *self, ngx_uint_t *more)
{
    ngx_int_t  rc;

    if (self->to_upstream.start
        && edge_held_flush(&self->to_upstream, r->upstream->peer.connection) == NGX_ERROR)
    {
        edge_parting_fail_upstream(r, self);
    }
    if (from_client(r, self, more) != NGX_OK) {
        return NGX_ERROR;
    }
    rc = flush_client(r, self);
    if (rc == NGX_OK) {
        rc = from_upstream(r, self, more);
    }
    edge_parting_settle(r, self);
    if (rc == NGX_OK) {
        rc = flush_client(r, self);
    }
    return rc == NGX_ERROR ? NGX_ERROR : NGX_OK;
}
