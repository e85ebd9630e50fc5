/* Ends requests that the configuration no longer allows, before their response or in the middle of
 * it, and keeps their connections from taking further requests. */
#include "services/edge/http/edge_end.h"
#include "services/edge/http/edge_goaway.h"
#include "services/edge/http/edge_suspend.h"

enum { UNSENT_MS = 400 };   /* then an end that the client's socket has not taken is forced */

static ngx_queue_t       ending;
static ngx_event_t       force_timer;
static ngx_connection_t  timer_dummy;


/* ---- the connection's end ---- */

void
edge_end_connection(ngx_http_request_t *r)
{
    r->keepalive = 0;
#if (NGX_HTTP_V2)
    if (r->stream) {
        edge_goaway_begin(r->stream->connection);
    }
#endif
}


/* ---- a request's end ---- */

/* Closes the upstream's side like the upstream module after a failure: without a response to the
 * client. */
static void
close_upstream(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u = r->upstream;

    if (u && u->cleanup) {
        r->main->count++;   /* cleanup drops a reference, and the request must outlive it */
        (*u->cleanup)(r);
    }
}


/* No response has begun: send the page that the request would get under the new configuration. */
static void
answer(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code)
{
    ngx_connection_t  *c = r->connection;

    ctx->error = code;
    close_upstream(r);
    /* error_page leads to edge_error_handler */
    ngx_http_finalize_request(r, NGX_HTTP_BAD_GATEWAY);
    ngx_http_run_posted_requests(c);
}


void
edge_end_soon(edge_ctx_t *ctx)
{
    if (ctx->ending.next) {
        return;
    }
    ngx_queue_insert_tail(&ending, &ctx->ending);
    ctx->force_at = ngx_current_msec + UNSENT_MS;
    if (!force_timer.timer_set) {
        ngx_add_timer(&force_timer, UNSENT_MS);
    }
}


/* In the middle of a response. HTTP/1.1 can only reset the connection, which drops what the socket
 * still buffers; HTTP/2 resets the stream. What a tunnel has told its client is not to be
 * dropped. */
static void
cut(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_connection_t  *c = r->connection;

    close_upstream(r);
    c->error = 1;
#if (NGX_HTTP_V2)
    if (r->stream == NULL)
#endif
    {
        c->timedout = !ctx->parted;
    }
    ngx_http_finalize_request(r, NGX_ERROR);
    ngx_http_run_posted_requests(c);   /* ctx may be gone from here on */
}


/* The connection of HTTP/2 that outlives its request; NULL: it is not of HTTP/2. */
static ngx_connection_t *
connection_of_streams(const ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream) {
        return r->stream->connection->connection;
    }
#endif
    return NULL;
}


/* Frames wait in its queue. */
static void
push_frames(ngx_connection_t *client)
{
    if (client) {
        ngx_post_event(client->write, &ngx_posted_events);
    }
}


void
edge_end_answer(edge_ctx_t *ctx, ngx_uint_t code)
{
    ngx_connection_t  *client = connection_of_streams(ctx->request);

    edge_suspend_abort(ctx);
    ctx->cut_for = code;
    cut(ctx->request, ctx);
    push_frames(client);
}


void
edge_end_request(edge_ctx_t *ctx, ngx_uint_t code)
{
    ngx_connection_t  *client;

    if (ctx->request->header_sent) {
        edge_end_soon(ctx);
        edge_end_answer(ctx, code);
        return;
    }
    client = connection_of_streams(ctx->request);
    edge_suspend_abort(ctx);
    answer(ctx->request, ctx, code);
    push_frames(client);
}


void
edge_end_forget(edge_ctx_t *ctx)
{
    if (ctx->ending.next) {
        ngx_queue_remove(&ctx->ending);
        ctx->ending.next = NULL;
    }
}


/* The client does not read, so the stream's reset, or the page that it got, is stuck behind queued
 * frames: close the whole connection. One of HTTP/1.1 also where it still sends what nobody reads
 * any more. */
static void
force_end(edge_ctx_t *ctx)
{
    ngx_connection_t    *client;
    ngx_http_request_t  *r = ctx->request;

    client = r->connection;
#if (NGX_HTTP_V2)
    if (r->stream) {
        if (!client->error) {   /* its page waits for the stream's window, and for no frame */
            client->error = 1;
            ngx_post_event(client->write, &ngx_posted_events);
        }
        client = r->stream->connection->connection;
        client->error = 1;
    } else
#endif
    {
        client->close = 1;
        ngx_post_event(client->read, &ngx_posted_events);
    }
    ngx_post_event(client->write, &ngx_posted_events);
    edge_end_forget(ctx);
}


static void
on_force(ngx_event_t *ev)
{
    edge_ctx_t      *ctx;
    ngx_msec_int_t   left;

    while (!ngx_queue_empty(&ending)) {
        ctx = ngx_queue_data(ngx_queue_head(&ending), edge_ctx_t, ending);
        left = (ngx_msec_int_t) (ctx->force_at - ngx_current_msec);
        if (left > 0) {
            ngx_add_timer(ev, (ngx_msec_t) left);
            return;
        }
        force_end(ctx);
    }
}


void
edge_end_start(ngx_cycle_t *cycle)
{
    ngx_queue_init(&ending);
    timer_dummy.fd = -1;
    force_timer.handler = on_force;
    force_timer.log = cycle->log;
    force_timer.data = &timer_dummy;
    force_timer.cancelable = 1;
}
