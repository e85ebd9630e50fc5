/* Suspend and resume (modules/module.h). A suspension holds no reference to its request: nginx ends
 * the request like any other, and the request's cleanup list tells us before its event is written
 * and its memory is freed. A suspension is allocated when a request first waits. */
#include "services/edge/http/edge_suspend.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_times.h"
#include "services/edge/http/room.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/invariant.h"

enum {
    FRAMING_BYTES = 64 * 1024,
    /* What room is taken for (http/room.h): what has come, not what was announced, or whoever
     * announces much and sends nothing would keep others out. A byte counts twice, for the
     * module may need the body in one piece; a piece, however small, has buffers. */
    BYTES_A_BYTE = 2,
    BYTES_A_PIECE = 512,
    BYTES_A_BODY = 8 << 10   /* even if nothing of it comes */
};

typedef struct edge_suspension {
    ngx_http_request_t  *request;
    edge_ctx_t          *ctx;
    ngx_event_t          wake;    /* posted by edge_module_resume */
    ngx_event_t          limit;   /* timer of the wait */
    module_id_t          module;
    uint64_t             since;     /* when it began to wait; 0: not measured */
    size_t               body_max;
    size_t               framing;     /* bytes of the body's buffer that are no body */
    room_part_t          room;        /* for the body, until the request ends */
    unsigned             waiting:1;
    unsigned             back:1;      /* the phases run again; edge_suspend_take clears it */
    unsigned             expired:1;
    unsigned             body_asked:1;
    unsigned             body_done:1;
    unsigned             body_cut:1;    /* longer than body_max: not read, or not to its end */
    unsigned             no_room:1;     /* cut for lack of room */
} edge_suspension_t;

static room_t  bodies;   /* of this worker */


static ngx_uint_t
is_reading(const edge_suspension_t *s)
{
    return s->body_asked && !s->body_done;
}


/* The rest of a body that is not read to its end would be parsed as the next request: close the
 * connection after this one. */
static void
leave_body(edge_suspension_t *s)
{
    if (is_reading(s)) {
        s->request->keepalive = 0;
        s->request->lingering_close = 1;
        edge_body_linger(s->request, EDGE_BODY_LINGER_S);   /* the room is taken meanwhile */
    }
}


/* nginx goes on reading a body that it has begun to read, and would send an error page for a
 * malformed one after the edge's own page. */
static void
stop_reading(edge_suspension_t *s)
{
    ngx_http_request_t  *r = s->request;

    if (!is_reading(s)) {
        return;
    }
    leave_body(s);
    r->read_event_handler = ngx_http_block_reading;
#if (NGX_HTTP_V2)
    if (r->stream) {
        r->stream->skip_data = 1;
    }
#endif
}


/* From here on edge_module_resume has no effect. */
static void
stop_waiting(edge_suspension_t *s)
{
    s->waiting = 0;
    edge_times_waited(s->ctx, s->module, s->since);
    if (s->wake.posted) {
        ngx_delete_posted_event(&s->wake);
    }
    if (s->limit.timer_set) {
        ngx_del_timer(&s->limit);
    }
}


void
edge_suspend_abort(edge_ctx_t *ctx)
{
    edge_suspension_t    *s = ctx->suspension;
    const edge_module_t  *module;

    if (s == NULL) {
        return;
    }
    stop_reading(s);
    if (!s->waiting) {
        return;
    }
    stop_waiting(s);
    edge_modules_note(s->module, EDGE_MODULE_ABORTED);
    module = edge_modules[s->module];
    if (module->abort) {
        module->abort(s->request, ctx);
    }
}


/* Cleanup of the request: the client went away, the connection or the worker ends, or the response
 * has been sent. */
static void
on_request_end(void *data)
{
    edge_suspension_t  *s = data;

    edge_suspend_abort(s->ctx);
    room_give(&bodies, &s->room);
}


/* Runs the phases again, which leads to edge_route_handler and edge_suspend_take. Reading of a body
 * continues meanwhile: the module calls edge_module_read_body again. */
static void
go_back(edge_suspension_t *s)
{
    ngx_connection_t    *c = s->request->connection;
    ngx_http_request_t  *r = s->request;

    s->back = 1;
    ngx_http_set_log_request(c->log, r);
    r->write_event_handler = ngx_http_core_run_phases;
    if (!is_reading(s) || s->body_cut || s->expired) {
        r->read_event_handler = ngx_http_block_reading;
    }
    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);   /* r and s may have been freed */
}


static void
on_wake(ngx_event_t *ev)
{
    edge_suspension_t  *s = ev->data;

    stop_waiting(s);
    edge_modules_note(s->module, EDGE_MODULE_RESUMED);
    go_back(s);
}


static void
on_limit(ngx_event_t *ev)
{
    edge_suspension_t  *s = ev->data;

    s->expired = 1;
    edge_modules_note(s->module, EDGE_MODULE_EXPIRED);
    edge_suspend_abort(s->ctx);
    go_back(s);
}


static edge_suspension_t *
suspension_of(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_suspension_t   *s = ctx->suspension;
    ngx_http_cleanup_t  *cln;

    if (s) {
        return s;
    }
    s = ngx_pcalloc(r->pool, sizeof(edge_suspension_t));
    cln = ngx_http_cleanup_add(r, 0);
    if (s == NULL || cln == NULL) {
        return NULL;
    }
    s->request = r;
    s->ctx = ctx;
    s->wake.handler = on_wake;
    s->wake.data = s;
    s->wake.log = r->connection->log;
    s->limit.handler = on_limit;   /* not cancelable: a worker that shuts down waits for it */
    s->limit.data = s;
    s->limit.log = r->connection->log;
    cln->handler = on_request_end;
    cln->data = s;
    ctx->suspension = s;
    return s;
}


/* While nothing reads from the client, notice when it closes the connection. An end of file that
 * arrived together with the request raises no further event, so one is posted here. */
static void
watch_client(ngx_http_request_t *r)
{
    ngx_connection_t  *c = r->connection;

    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    if (c->read->pending_eof) {
        ngx_post_event(c->read, &ngx_posted_events);
    }
}


intptr_t
edge_module_suspend(ngx_http_request_t *r, edge_ctx_t *ctx, module_id_t module,
    unsigned ms)
{
    edge_suspension_t  *s = suspension_of(r, ctx);

    if (s == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    INVARIANT(!s->waiting);
    s->module = module;
    s->waiting = 1;
    s->since = edge_times_now(ctx);
    edge_modules_note(module, EDGE_MODULE_SUSPENDED);
    if (!is_reading(s)) {
        watch_client(r);
    }
    ngx_add_timer(&s->limit, ms && ms < MODULE_SUSPEND_MAX_MS
                             ? ms : MODULE_SUSPEND_MAX_MS);
    return NGX_AGAIN;
}


void
edge_module_resume(edge_ctx_t *ctx)
{
    edge_suspension_t  *s = ctx->suspension;

    if (s && s->waiting && !s->wake.posted) {
        ngx_post_event(&s->wake, &ngx_posted_events);
    }
}


/* ---- the body ---- */

static void
on_body(ngx_http_request_t *r)
{
    edge_ctx_t         *ctx = edge_ctx(r);
    edge_suspension_t  *s = ctx->suspension;

    r->preserve_body = 1;   /* it is sent to the upstream later */
    s->body_done = 1;
    if (s->waiting) {
        watch_client(r);
        edge_module_resume(ctx);
    }
}


/* What the framing of chunks has taken of the body's buffer since this was asked last: it stays
 * there, beside the body. */
static size_t
framing_since(edge_suspension_t *s)
{
    size_t      before = s->framing;
    off_t       framing;
    ngx_buf_t  *b = s->request->request_body->buf;

    if (b && s->request->headers_in.chunked) {
        framing = b->last - b->start - s->ctx->body.received;
        s->framing = ngx_max(framing, (off_t) before);
    }
    return s->framing - before;
}


/* nginx begins anew with a buffer that is full, and writes to a file what it has of the body. */
static ngx_uint_t
is_full(edge_suspension_t *s)
{
    ngx_http_request_body_t  *rb = s->request->request_body;

    return s->request->headers_in.chunked && rb->rest > 0 && rb->buf
           && rb->buf->last == rb->buf->end;
}


/* Pieces of a body that is as long as it may be, of which each is small, would take hundreds of
 * times what they hold. */
static ngx_uint_t
has_room(edge_suspension_t *s, size_t bytes, ngx_uint_t pieces)
{
    size_t  more = bytes * BYTES_A_BYTE + pieces * BYTES_A_PIECE
                   + framing_since(s);

    if (s->room.bytes + more > 8 * s->body_max + FRAMING_BYTES || is_full(s)) {
        return 0;
    }
    if (!room_take(&bodies, &s->room, more)) {
        s->no_room = 1;
        return 0;
    }
    return 1;
}


ngx_uint_t
edge_suspend_body_is_cut(edge_ctx_t *ctx, size_t bytes, ngx_uint_t pieces)
{
    edge_suspension_t  *s = ctx->suspension;

    if (s == NULL || !s->body_asked || s->body_done) {
        return 0;
    }
    if (s->body_cut) {
        return 1;
    }
    if (ctx->body.received <= (off_t) s->body_max
        && has_room(s, bytes, pieces))
    {
        return 0;
    }
    s->body_cut = 1;
    edge_module_resume(ctx);
    return 1;
}


/* nginx allocates the buffer for the body in this call, by client_body_buffer_size, and writes to a
 * file what does not fit: the worker would wait for the disk, and secrets of a body would be on it.
 * So the buffer has room for the largest body that the module accepts, and for the framing of its
 * chunks. Of a body whose length is known it has exactly that length; of others the kernel provides
 * the pages when they are written to. */
static ngx_int_t
read_into_memory(ngx_http_request_t *r, size_t max)
{
    size_t                     usual;
    ngx_int_t                  rc;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_get_module_loc_conf(r, ngx_http_core_module);
    usual = clcf->client_body_buffer_size;
    clcf->client_body_buffer_size = ngx_max(usual, 2 * max + FRAMING_BYTES);
    rc = ngx_http_read_client_request_body(r, on_body);
    clcf->client_body_buffer_size = usual;
    return rc;
}


static ngx_int_t
start_body(ngx_http_request_t *r, edge_suspension_t *s, size_t max)
{
    ngx_int_t  rc;

    s->body_max = max;
    if (r->headers_in.content_length_n > (off_t) max) {
        s->body_cut = 1;   /* too long: not read at all */
        return NGX_OK;
    }
    s->room.account = edge_share_account_of(s->ctx);
    s->room.client = edge_share_theirs(r, s->ctx->client, s->room.account);
    s->room.alone = edge_share_alone(r, s->ctx->client);
    s->room.percent = (uint32_t) edge_conf()->client_portion;
    if (!room_take(&bodies, &s->room, BYTES_A_BODY)) {
        return NGX_BUSY;
    }
    s->body_asked = 1;
    edge_share_keep_body(s->ctx, 0);   /* room is taken for what comes of it */
    rc = read_into_memory(r, max);
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }
    r->main->count--;   /* drop the reference that nginx's body reader took */
    return NGX_OK;
}


intptr_t
edge_module_read_body(ngx_http_request_t *r, edge_ctx_t *ctx,
    module_id_t module, size_t max, unsigned ms)
{
    ngx_int_t           rc;
    edge_suspension_t  *s = suspension_of(r, ctx);

    if (s == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!s->body_asked && !s->body_cut) {
        rc = start_body(r, s, max);
        if (rc != NGX_OK) {
            return rc;
        }
    }
    if (s->body_cut || ctx->body.received > (off_t) max) {
        s->body_cut = 1;
        leave_body(s);
        return s->no_room ? NGX_BUSY : NGX_DECLINED;
    }
    return s->body_done ? NGX_OK : edge_module_suspend(r, ctx, module, ms);
}


/* ---- the route phase ---- */

ngx_uint_t
edge_suspend_is_waiting(const edge_ctx_t *ctx)
{
    return ctx->suspension && ctx->suspension->waiting;
}


/* The proxy would send an incomplete body with the Content-Length of the whole one. */
ngx_uint_t
edge_suspend_may_go_on(const edge_ctx_t *ctx)
{
    const edge_suspension_t  *s = ctx->suspension;

    return s == NULL || (!s->body_cut && !is_reading(s));
}


module_id_t
edge_suspend_take(edge_ctx_t *ctx, ngx_uint_t *expired)
{
    edge_suspension_t  *s = ctx->suspension;

    if (s == NULL || !s->back) {
        return MODULE_COUNT;
    }
    s->back = 0;
    *expired = s->expired;
    return s->module;
}
