/* The requests that a worker is serving, and the end of those that the configuration no longer allows.
 *
 * A request is judged when it comes. What goes on after that (a WebSocket, a stream of events, a long download, a
 * wait for the upstream's answer) is judged again after each change, by the same table and in the same order:
 * host, TLS demands, route, modules. All of them would be too many for one turn of the event loop, so they
 * stand in a queue, those judged longest ago first, and go through it a few at a time. */
#include "services/edge/http/edge_streams.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_handshake.h"
#include "services/edge/http/edge_suspend.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "common/base/err.h"

enum {
    DELAY_MS = 200,   /* changes that come together are judged together */
    BURST = 256,      /* of one turn */
    UNSENT_MS = 400   /* an end that the client does not take is forced after this */
};

static ngx_queue_t       streams, ending;
static ngx_uint_t        round_number, walking, changed;
static ngx_event_t       walk_timer, force_timer;
static ngx_connection_t  timer_dummy;


void
edge_streams_add(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->request = r;
    ctx->round = round_number;
    ngx_queue_insert_tail(&streams, &ctx->queue);
}


/* When the request's memory is freed. */
void
edge_streams_remove(edge_ctx_t *ctx)
{
    if (ctx->request) {
        ngx_queue_remove(&ctx->queue);
        ctx->request = NULL;
    }
}


void
edge_streams_changed(void)
{
    changed = 1;
    if (!walking && !walk_timer.timer_set && !ngx_queue_empty(&streams)) {
        ngx_add_timer(&walk_timer, DELAY_MS);
    }
}


/* ---- the connection's end ---- */

#if (NGX_HTTP_V2)

static ngx_int_t
on_goaway_sent(ngx_http_v2_connection_t *h2c, ngx_http_v2_out_frame_t *frame)
{
    (void) h2c;
    return frame->first->buf->pos == frame->first->buf->last ? NGX_OK
                                                             : NGX_AGAIN;
}


static u_char *
put_number(u_char *p, uint32_t number)
{
    number = htonl(number);
    return ngx_cpymem(p, &number, sizeof(number));   /* where nginx's macros store, nothing is aligned */
}


/* RFC 9113 6.8. nginx sends it by itself only when it closes a connection. */
static void
send_goaway(ngx_http_v2_connection_t *h2c)
{
    u_char                   *p;
    ngx_pool_t               *pool;
    ngx_http_v2_out_frame_t  *frame;

    pool = h2c->pool ? h2c->pool : h2c->connection->pool;
    frame = ngx_pcalloc(pool, sizeof(ngx_http_v2_out_frame_t));
    if (frame == NULL
        || (frame->first = ngx_alloc_chain_link(pool)) == NULL
        || (frame->first->buf = ngx_create_temp_buf(pool,
                NGX_HTTP_V2_FRAME_HEADER_SIZE + 8)) == NULL)
    {
        h2c->connection->error = 1;
        return;
    }
    frame->first->next = NULL;
    frame->last = frame->first;
    frame->handler = on_goaway_sent;
    frame->length = 8;
    p = frame->first->buf->pos;
    p = put_number(p, frame->length << 8 | NGX_HTTP_V2_GOAWAY_FRAME);
    *p++ = NGX_HTTP_V2_NO_FLAG;
    p = put_number(p, 0);
    p = put_number(p, h2c->last_sid);
    p = put_number(p, 0);   /* NO_ERROR */
    frame->first->buf->last = p;
    frame->first->buf->last_buf = 1;
    ngx_http_v2_queue_blocked_frame(h2c, frame);
    h2c->goaway = 1;
}

#endif


void
edge_streams_last(ngx_http_request_t *r)
{
    r->keepalive = 0;
#if (NGX_HTTP_V2)
    if (r->stream && !r->stream->connection->goaway) {
        send_goaway(r->stream->connection);
    }
#endif
}


/* ---- a request's end ---- */

/* As the upstream module ends it when it has failed, which is without an answer to the client. */
static void
close_upstream(ngx_http_request_t *r)
{
    ngx_http_upstream_t  *u = r->upstream;

    if (u && u->cleanup) {
        r->main->count++;   /* it gives one back, and the request must outlive that */
        (*u->cleanup)(r);
    }
}


/* Before an answer: the page that the request would get now. */
static void
answer(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t code)
{
    ngx_connection_t  *c = r->connection;

    ctx->error = code;
    close_upstream(r);
    ngx_http_finalize_request(r, NGX_HTTP_BAD_GATEWAY);   /* error_page leads to edge_error_handler */
    ngx_http_run_posted_requests(c);
}


/* In the middle of an answer: HTTP/1.1 has no other means than to reset the connection, without what waits in the
 * socket; HTTP/2 resets the stream. */
static void
cut(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_connection_t  *c = r->connection;

    ngx_queue_remove(&ctx->queue);
    ngx_queue_insert_tail(&ending, &ctx->queue);
    ctx->force_at = ngx_current_msec + UNSENT_MS;
    if (!force_timer.timer_set) {
        ngx_add_timer(&force_timer, UNSENT_MS);
    }
    close_upstream(r);
    c->error = 1;
#if (NGX_HTTP_V2)
    if (r->stream == NULL)
#endif
    {
        c->timedout = 1;
    }
    ngx_http_finalize_request(r, NGX_ERROR);
    ngx_http_run_posted_requests(c);   /* ctx may be gone from here on */
}


static void
end(edge_ctx_t *ctx, ngx_uint_t code)
{
    ngx_connection_t    *client = NULL;
    ngx_http_request_t  *r = ctx->request;

    ngx_http_set_log_request(r->connection->log, r);
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: the configuration no longer allows a request of "
                  "route %s: ended with %ui", ctx->route->id, code);
    edge_ring_counters(ngx_worker)->streams_ended++;
    edge_suspend_abort(ctx);
#if (NGX_HTTP_V2)
    if (r->stream) {
        client = r->stream->connection->connection;
    }
#endif
    if (r->header_sent) {
        cut(r, ctx);
    } else {
        answer(r, ctx, code);
    }
    if (client) {
        ngx_post_event(client->write, &ngx_posted_events);   /* frames wait in the queue */
    }
}


/* The client has not taken what was queued for the stream before, so its reset is stuck behind that: the connection goes. */
static void
force(edge_ctx_t *ctx)
{
#if (NGX_HTTP_V2)
    ngx_connection_t    *client;
    ngx_http_request_t  *r = ctx->request;

    if (r->stream) {
        client = r->stream->connection->connection;
        client->error = 1;
        ngx_post_event(client->write, &ngx_posted_events);
    }
#endif
    ngx_queue_remove(&ctx->queue);
    ngx_queue_init(&ctx->queue);
}


static void
on_force(ngx_event_t *ev)
{
    edge_ctx_t      *ctx;
    ngx_msec_int_t   left;

    while (!ngx_queue_empty(&ending)) {
        ctx = ngx_queue_data(ngx_queue_head(&ending), edge_ctx_t, queue);
        left = (ngx_msec_int_t) (ctx->force_at - ngx_current_msec);
        if (left > 0) {
            ngx_add_timer(ev, (ngx_msec_t) left);
            return;
        }
        force(ctx);
    }
}


/* ---- judging ---- */

static ngx_uint_t
judge_modules(ngx_http_request_t *r, edge_ctx_t *ctx, const route_t *route)
{
    int         module = -1;
    ngx_uint_t  code;

    if (route->beyond) {
        module = __builtin_ctz(route->beyond);
        code = ERR_EDGE_MODULE;
    } else if ((route->enabled & (1u << MODULE_BACKEND)) == 0) {
        module = MODULE_BACKEND;
        code = ERR_EDGE_NO_BACKEND;
    } else {
        code = edge_modules_judge(r, ctx, route, &module);
    }
    if (code && !r->header_sent) {
        ctx->blocked_by = module;
    }
    return code;
}


/* 0: it may go on; else the code of the page for a request that has no answer yet. */
ngx_uint_t
edge_streams_judge(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_t   *edge;
    route_t  *route;

    edge = table_edge(edge_worker_table(), (char *) ctx->host.data, ctx->host.len);
    if (edge == NULL || !edge->present) {
        return ERR_EDGE_NO_HOST;
    }
    if (edge_is_refused(edge)) {
        return ERR_EDGE_ENTRY_REFUSED;
    }
    if (edge_tls_agrees(r, edge, ctx) != NGX_OK) {
        return ERR_EDGE_MISDIRECTED;
    }
    route = table_route(edge, (char *) ctx->host.data, ctx->host.len,
                        (char *) ctx->path.data, ctx->path.len);
    if (route == NULL) {
        return ERR_EDGE_NO_ROUTE;
    }
    if (ngx_strcmp(route->id, ctx->route->id) != 0) {
        return ERR_EDGE_CHANGED;
    }
    if (route->refused) {
        return ERR_EDGE_ENTRY_REFUSED;
    }
    return judge_modules(r, ctx, route);
}


/* Its answer is complete, or is a page of the edge. */
static ngx_uint_t
is_over(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    return r->done || ctx->error || r->connection->error;
}


static void
on_walk(ngx_event_t *ev)
{
    edge_ctx_t  *ctx;
    ngx_uint_t   n, code;

    if (!walking) {
        walking = 1;
        changed = 0;
        round_number++;
    }
    for (n = 0; n < BURST && !ngx_queue_empty(&streams); n++) {
        ctx = ngx_queue_data(ngx_queue_head(&streams), edge_ctx_t, queue);
        if (ctx->round == round_number) {
            break;
        }
        ctx->round = round_number;
        ngx_queue_remove(&ctx->queue);
        ngx_queue_insert_tail(&streams, &ctx->queue);
        code = is_over(ctx->request, ctx)
               ? 0 : edge_streams_judge(ctx->request, ctx);
        if (code) {
            end(ctx, code);
        }
    }
    if (n == BURST) {
        ngx_add_timer(ev, 1);
        return;
    }
    walking = 0;
    if (changed) {
        edge_streams_changed();
    }
}


static void
init_timer(ngx_event_t *ev, ngx_event_handler_pt handler, ngx_log_t *log)
{
    ev->handler = handler;
    ev->log = log;
    ev->data = &timer_dummy;
    ev->cancelable = 1;
}


void
edge_streams_start(ngx_cycle_t *cycle)
{
    ngx_queue_init(&streams);
    ngx_queue_init(&ending);
    timer_dummy.fd = -1;
    init_timer(&walk_timer, on_walk, cycle->log);
    init_timer(&force_timer, on_force, cycle->log);
}
