#include "services/edge/modules/edge_parting.h"
#include "services/edge/http/edge_unsent.h"
#include "services/edge/modules/module.h"


/* ---- ends ---- */

/* The configuration or the worker's end takes the stream away: a close frame, where it goes out
 * at once. */
static void
say_goodbye(ngx_http_request_t *r, edge_converter_t *self)
{
    u_char             frame[WEBSOCKET_FRAME_MAX];
    size_t             len;
    edge_ctx_t        *ctx = edge_ctx(r);
    ngx_connection_t  *c = r->connection;

    if (!self->opened || self->over || self->leave != EDGE_LEAVE_NOT
        || self->to_client.start || self->control_at < self->control_len
        || r->out || c->buffered || !c->write->ready)
    {
        return;
    }
    len = websocket_write_close(frame, WEBSOCKET_RESTART, "");
    if (c->send(c, frame, len) == (ssize_t) len && ctx) {
        ctx->parted = 1;
    }
}


/* nginx's upstream module is about to close the upstream's connection, for whatever reason. A FIN
 * says that the client said close, and all that it had sent before has come. Whatever else ends the
 * connection is a reset, so that the upstream does not take what it has for the whole. */
void
edge_parting_on_upstream_end(ngx_http_request_t *r, ngx_int_t rc)
{
    ngx_connection_t  *c = r->upstream->peer.connection;
    edge_converter_t  *self = edge_converter_of(r);

    (void) rc;
    if (self == NULL) {
        return;
    }
    if (self->attempt.posted) {
        ngx_delete_posted_event(&self->attempt);
    }
    edge_held_drop(&self->to_upstream);
    say_goodbye(r, self);
    self->over = 1;
    if (self->opened && c && !self->upstream_told) {
        edge_unsent_reset(c);
    }
}


static void
drop_upstream(ngx_http_request_t *r)
{
    ngx_http_upstream_t        *u = r->upstream;
    ngx_http_event_handler_pt   handler = r->read_event_handler;

    if (u->cleanup) {
        r->main->count++;   /* cleanup drops a reference, and the request must outlive it */
        (*u->cleanup)(r);
    }
    r->read_event_handler = handler;   /* nginx has replaced it */
}


void
edge_parting_note(ngx_http_request_t *r, ngx_uint_t code, const char *why)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: a WebSocket of route %s ends with %ui: %s",
                  ctx ? ctx->route->id : "", code, why);
}


/* r has been freed when this returns. */
void
edge_parting_cut(ngx_http_request_t *r, edge_converter_t *self, ngx_uint_t reset)
{
    self->over = 1;
    drop_upstream(r);
    r->connection->timedout = reset;
    ngx_http_finalize_request(r, NGX_ERROR);
}


/* Both sides have said close, or all has been said that the client gets. It may still be
 * sending: nginx reads that and throws it away, so that no reset destroys what was sent. r may
 * have been freed when this returns. */
void
edge_parting_finish(ngx_http_request_t *r, edge_converter_t *self)
{
    self->over = 1;
    drop_upstream(r);
    r->lingering_close |= self->failed;
    ngx_http_finalize_request(r, NGX_OK);
}


static void
begin_to_leave(edge_converter_t *self, ngx_uint_t code, const char *reason)
{
    if (self->leave == EDGE_LEAVE_NOT) {
        self->leave = EDGE_LEAVE_DUE;
        self->code = code;
        self->reason = reason;
    }
}


/* Nothing is carried any more: the upstream's connection ends now, and the client's when it has
 * been told why. */
void
edge_parting_fail(ngx_http_request_t *r, edge_converter_t *self, ngx_uint_t code,
    const char *reason)
{
    edge_parting_note(r, code, reason);
    edge_module_count(MODULE_WEBSOCKET_TCP_CONVERTER, EDGE_CONVERTER_FAILED);
    self->failed = 1;
    self->over = 1;
    self->upstream_ended = 1;
    self->upstream_deaf = 1;
    drop_upstream(r);
    begin_to_leave(self, code, reason);
}


/* An upstream that has said its end, and does not take the rest either, has closed its
 * connection: that is no failure. */
void
edge_parting_fail_upstream(ngx_http_request_t *r, edge_converter_t *self)
{
    if (!self->upstream_ended && !self->client_closed) {
        edge_parting_fail(r, self, WEBSOCKET_FAILED, "the upstream's connection broke");
        return;
    }
    self->upstream_ended = 1;
    self->upstream_deaf = 1;
    edge_held_drop(&self->to_upstream);
}


/* ---- half-closes ---- */

/* NGX_AGAIN: the alert of TLS that says it does not fit yet. */
static ngx_int_t
shut_down(ngx_connection_t *c)
{
    int  n;

    if (c->ssl) {
        n = SSL_shutdown(c->ssl->connection);
        if (n < 0 && SSL_get_error(c->ssl->connection, n) == SSL_ERROR_WANT_WRITE) {
            c->write->ready = 0;
            return NGX_AGAIN;
        }
        ERR_clear_error();
    }
    return ngx_shutdown_socket(c->fd, NGX_WRITE_SHUTDOWN) == -1 ? NGX_ERROR
                                                                : NGX_OK;
}


/* All that came before the client's close frame has gone: the upstream gets its FIN. */
static void
tell_upstream(ngx_http_request_t *r, edge_converter_t *self)
{
    if (!self->client_closed || self->upstream_told || self->upstream_deaf
        || self->to_upstream.start)
    {
        return;
    }
    switch (shut_down(r->upstream->peer.connection)) {
    case NGX_OK:
        self->upstream_told = 1;
        break;
    case NGX_ERROR:
        edge_parting_fail_upstream(r, self);
    }
}


/* Is the upstream done with what the client has sent? */
ngx_uint_t
edge_parting_is_delivered(const edge_converter_t *self)
{
    return self->upstream_told || self->upstream_deaf;
}


void
edge_parting_settle(ngx_http_request_t *r, edge_converter_t *self)
{
    tell_upstream(r, self);
    if (self->upstream_ended) {
        if (!self->client_closed) {
            begin_to_leave(self, WEBSOCKET_NORMAL, "");
        } else if (edge_parting_is_delivered(self)) {
            begin_to_leave(self, self->decoder.code, "");
        }
    }
}


/* Has each side had all that it gets? */
ngx_uint_t
edge_parting_is_over(const edge_converter_t *self)
{
    return self->leave == EDGE_LEAVE_SENT
           && (self->failed || (self->client_closed && edge_parting_is_delivered(self)));
}
