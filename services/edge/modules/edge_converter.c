/* Converts an open WebSocket.
 *
 * nginx's proxy connects to the backend, with TLS where the backend has it, and answers where that
 * fails. When the connection stands, instead of a request to be written (take_over), it belongs to
 * the functions here: they answer 101 and carry bytes until the end. nginx's upstream module still
 * owns the connection, and closes it whatever ends the request (edge_parting.c).
 *
 * One function, take_turn, does all that can be done, whichever of the two connections has an
 * event. What one side sends is read into a buffer that all requests of the worker share, and
 * written from there. What the other side does not take is held (edge_held.h), and until it has
 * gone nothing more is read (edge_carry.c). */
#include "services/edge/modules/edge_converter.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/modules/edge_carry.h"
#include "services/edge/modules/edge_parting.h"
#include "services/edge/modules/module.h"

#include <linux/sockios.h>
#include <sys/ioctl.h>

/* For the upstream's last bytes, and for the client's close frame. */
enum { CLOSING_MS = 5 * 1000 };


edge_converter_t *
edge_converter_of(ngx_http_request_t *r)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    return ctx ? edge_module_state_if_any(ctx, MODULE_WEBSOCKET_TCP_CONVERTER)
               : NULL;
}


/* ---- time ---- */

/* A peer that does not take what is held: its time begins anew with each byte that it takes. */
static void
time_writes(ngx_connection_t *c, edge_held_t *held, ngx_uint_t waits,
    ngx_msec_t ms)
{
    if (!waits) {
        if (c->write->timer_set) {
            ngx_del_timer(c->write);
        }
    } else if (held->moved || !c->write->timer_set) {
        ngx_add_timer(c->write, ms);
    }
    held->moved = 0;
}


/* The client has said close, and the upstream does not have all of it yet. */
static ngx_uint_t
is_delivering(const edge_converter_t *self)
{
    return self->client_closed && !edge_parting_is_delivered(self);
}


/* An upstream that takes the client's last bytes may do so slowly. */
static void
time_closing(ngx_connection_t *c, const edge_converter_t *self)
{
    if (is_delivering(self)) {
        if (c->read->timer_set) {
            ngx_del_timer(c->read);
        }
    } else if ((self->leave != EDGE_LEAVE_NOT || self->upstream_told)
               && !c->read->timer_set)
    {
        ngx_add_timer(c->read, CLOSING_MS);
    }
}


static void
time_all(ngx_http_request_t *r, edge_converter_t *self)
{
    ngx_connection_t          *c = r->connection, *upstream = r->upstream->peer.connection;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    time_writes(c, &self->to_client,
                !self->client_deaf
                && (self->to_client.start || r->out
                    || self->control_at < self->control_len),
                clcf->send_timeout);
    time_closing(c, self);
    if (upstream == NULL) {
        return;
    }
    time_writes(upstream, &self->to_upstream,
                self->to_upstream.start || is_delivering(self),
                r->upstream->conf->send_timeout);
    if (self->leave == EDGE_LEAVE_NOT && !self->client_closed) {
        ngx_add_timer(upstream->read, r->upstream->conf->read_timeout);
    } else if (upstream->read->timer_set) {
        ngx_del_timer(upstream->read);
    }
}


/* What the kernel still has for a peer is lost where its connection is closed and the peer says
 * anything, which is answered with a reset. So a peer that takes it, however slowly, has its time
 * when it has all of it. Is it to go on? */
static ngx_uint_t
is_taking(ngx_connection_t *c, edge_closing_t *closing, ngx_msec_t patience)
{
    int  unsent = 0, before = closing->unsent;

    if (c == NULL || ioctl(c->fd, SIOCOUTQ, &unsent) == -1) {
        return 0;
    }
    closing->unsent = unsent;
    if (unsent == 0) {
        return before > 0;
    }
    if (before == 0 || unsent < before) {
        closing->moved_at = ngx_current_msec;
    }
    return ngx_current_msec - closing->moved_at < patience;
}


static ngx_uint_t
is_still_taking(ngx_http_request_t *r, edge_converter_t *self)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    if (self->leave == EDGE_LEAVE_NOT) {
        return is_taking(r->upstream->peer.connection, &self->upstream_closing,
                         r->upstream->conf->send_timeout);
    }
    return self->leave == EDGE_LEAVE_SENT && !self->client_deaf
           && is_taking(r->connection, &self->client_closing, clcf->send_timeout);
}


/* CLOSING_MS are over. An upstream that still sends has had its time, and the client gets its
 * answer; a client that did not take that, or did not say close itself, is left. Was the request
 * ended? */
static ngx_uint_t
end_closing(ngx_http_request_t *r, edge_converter_t *self)
{
    r->connection->read->timedout = 0;
    if (is_still_taking(r, self)) {
        ngx_add_timer(r->connection->read, CLOSING_MS);
        return 0;
    }
    if (self->leave == EDGE_LEAVE_NOT) {
        self->upstream_ended = 1;
        return 0;
    }
    if (self->leave == EDGE_LEAVE_SENT) {
        edge_parting_finish(r, self);
    } else {
        edge_parting_cut(r, self, 1);
    }
    return 1;
}


/* Ends what has waited for too long. Was the request ended? */
static ngx_uint_t
end_late(ngx_http_request_t *r, edge_converter_t *self)
{
    ngx_connection_t  *c = r->connection, *upstream = r->upstream->peer.connection;

    if (c->write->timedout) {
        edge_parting_note(r, 1006, "the client takes nothing");
        edge_parting_cut(r, self, 1);
        return 1;
    }
    if (upstream && upstream->write->timedout) {
        upstream->write->timedout = 0;
        edge_parting_fail(r, self, WEBSOCKET_FAILED, "the upstream takes nothing");
    } else if (upstream && upstream->read->timedout) {
        upstream->read->timedout = 0;
        edge_parting_fail(r, self, WEBSOCKET_GOING_AWAY, "idle");
    }
    return c->read->timedout && end_closing(r, self);
}


/* ---- events ---- */

static ngx_int_t
wait_for_events(ngx_http_request_t *r)
{
    ngx_connection_t  *c = r->connection, *upstream = r->upstream->peer.connection;

    if ((!c->read->eof && ngx_handle_read_event(c->read, 0) != NGX_OK)
        || ngx_handle_write_event(c->write, 0) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (upstream == NULL) {
        return NGX_OK;
    }
    if ((!upstream->read->eof
         && ngx_handle_read_event(upstream->read, 0) != NGX_OK)
        || ngx_handle_write_event(upstream->write, 0) != NGX_OK)
    {
        return NGX_ERROR;
    }
    return NGX_OK;
}


/* The client's connection broke. What it had sent before it said close still goes upstream. Was
 * the request ended? */
static ngx_uint_t
lose_client(ngx_http_request_t *r, edge_converter_t *self)
{
    if (!self->client_closed || edge_parting_is_delivered(self)) {
        edge_parting_cut(r, self, 0);
        return 1;
    }
    self->client_deaf = 1;
    self->leave = EDGE_LEAVE_SENT;
    edge_held_drop(&self->to_client);
    self->control_at = self->control_len;
    return 0;
}


static void
take_turn(ngx_http_request_t *r, edge_converter_t *self)
{
    ngx_uint_t  more = 0;

    if (end_late(r, self)) {
        return;
    }
    if (edge_carry(r, self, &more) != NGX_OK && lose_client(r, self)) {
        return;
    }
    if (edge_parting_is_over(self)) {
        edge_parting_finish(r, self);
        return;
    }
    time_all(r, self);
    if (wait_for_events(r) != NGX_OK) {
        edge_parting_cut(r, self, 1);
        return;
    }
    if (more) {
        /* after other requests' events */
        ngx_post_event(r->connection->read, &ngx_posted_next_events);
    }
}


static void
on_client(ngx_http_request_t *r)
{
    edge_converter_t  *self = edge_converter_of(r);

    if (self) {
        take_turn(r, self);
    }
}


static void
on_upstream(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    (void) u;
    on_client(r);
}


/* ---- the beginning ---- */

static ngx_int_t
add_header(ngx_http_request_t *r, const char *name, u_char *value, size_t len)
{
    ngx_table_elt_t  *h = ngx_list_push(&r->headers_out.headers);

    if (h == NULL) {
        return NGX_ERROR;
    }
    ngx_memzero(h, sizeof(*h));
    h->hash = 1;
    h->key.data = (u_char *) name;
    h->key.len = ngx_strlen(name);
    h->value.data = value;
    h->value.len = len;
    return NGX_OK;
}


/* RFC 6455 4.2.2. No subprotocol and no extension is accepted: what the client offered has no
 * effect. NGX_OK, NGX_ERROR or an HTTP status. */
static ngx_int_t
send_101(ngx_http_request_t *r, edge_converter_t *self)
{
    u_char     *accept = ngx_pnalloc(r->pool, WEBSOCKET_ACCEPT_LEN);
    ngx_int_t   rc;

    if (accept == NULL
        || !websocket_accept((char *) self->key.data, self->key.len,
                             (char *) accept)
        || add_header(r, "Upgrade", (u_char *) "websocket", 9) != NGX_OK
        || add_header(r, "Sec-WebSocket-Accept", accept, WEBSOCKET_ACCEPT_LEN)
           != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->keepalive = 0;
    r->headers_out.status = NGX_HTTP_SWITCHING_PROTOCOLS;
    ngx_str_set(&r->headers_out.status_line, "101 Switching Protocols");
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK) {
        return rc;
    }
    return ngx_http_send_special(r, NGX_HTTP_FLUSH) == NGX_ERROR ? NGX_ERROR
                                                                 : NGX_OK;
}


/* The request could not be answered with 101. */
static void
give_up(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_http_upstream_t  *u = r->upstream;

    if (u->cleanup) {
        r->main->count++;
        (*u->cleanup)(r);
    }
    ngx_http_finalize_request(r, rc);
}


/* In a turn of its own after take_over. */
static void
open_websocket(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    ngx_int_t          rc;
    edge_ctx_t        *ctx = edge_ctx(r);
    ngx_connection_t  *c = r->connection, *upstream = u->peer.connection;
    edge_converter_t  *self = edge_converter_of(r);

    if (self == NULL) {
        give_up(r, NGX_ERROR);
        return;
    }
    if (edge_streams_upgrade(r, ctx)) {
        give_up(r, NGX_HTTP_BAD_GATEWAY);   /* the page says why: ctx->error */
        return;
    }
    rc = send_101(r, self);
    if (rc != NGX_OK || ngx_tcp_nodelay(c) != NGX_OK
        || ngx_tcp_nodelay(upstream) != NGX_OK)
    {
        give_up(r, rc == NGX_OK ? NGX_ERROR : rc);
        return;
    }
    edge_module_count(MODULE_WEBSOCKET_TCP_CONVERTER, EDGE_CONVERTER_OPENED);
    c->log->action = "converting a WebSocket";
    self->opened = 1;
    ctx->tunnelled = 1;
    u->header_sent = 1;
    u->read_event_handler = on_upstream;
    u->write_event_handler = on_upstream;
    r->read_event_handler = on_client;
    r->write_event_handler = on_client;
    edge_held_prepare(c);
    edge_held_prepare(upstream);
    take_turn(r, self);
}


/* nginx's writer to the upstream, called when the connection stands and has been tested, its
 * handshake of TLS included: there is no request to be written. In the middle of nginx's
 * functions, which go on with the result: so the rest is done in another turn. */
static ngx_int_t
take_over(void *data, ngx_chain_t *in)
{
    ngx_http_request_t   *r = data;
    ngx_http_upstream_t  *u = r->upstream;

    (void) in;
    edge_failover_stands(r, edge_ctx(r));
    edge_reader_stands(u->peer.connection);
    u->read_event_handler = open_websocket;
    u->write_event_handler = open_websocket;
    ngx_post_event(u->peer.connection->write, &ngx_posted_events);
    return NGX_AGAIN;
}


static void
leave_unread(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    (void) r;
    (void) u;
}


/* nginx has begun to connect. An upstream that speaks first may be readable before nginx has
 * seen that it is connected, and nginx would take what it reads for the head of an answer. A
 * connection that fails is writable, too, so nothing is missed. */
static void
on_attempt(ngx_event_t *ev)
{
    ngx_http_request_t   *r = ev->data;
    ngx_http_upstream_t  *u = r->upstream;

    if (u->peer.connection && u->read_event_handler != open_websocket) {
        u->read_event_handler = leave_unread;
    }
}


/* Called for each connection that nginx is about to make. */
static void
tunnel(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_converter_t     *self;
    ngx_http_upstream_t  *u = r->upstream;

    self = edge_module_state_if_any(ctx, MODULE_WEBSOCKET_TCP_CONVERTER);
    u->request_bufs = NULL;
    u->output.output_filter = take_over;
    u->output.filter_ctx = r;
    u->finalize_request = edge_parting_on_upstream_end;
    self->attempt.handler = on_attempt;
    self->attempt.data = r;
    self->attempt.log = r->connection->log;
    if (!self->attempt.posted) {
        ngx_post_event(&self->attempt, &ngx_posted_events);
    }
}


void
edge_converter_prepare(edge_ctx_t *ctx)
{
    ctx->tunnel = tunnel;
}


void
edge_converter_end(edge_converter_t *self)
{
    if (self->attempt.posted) {
        ngx_delete_posted_event(&self->attempt);
    }
    edge_held_drop(&self->to_client);
    edge_held_drop(&self->to_upstream);
}
