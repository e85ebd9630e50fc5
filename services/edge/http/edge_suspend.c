/* Suspend and resume (modules/module.h). A request that waits holds no reference of its own: nginx
 * ends it as it ends any other, and tells through the request's cleanup list, which runs before its
 * event is written and its memory goes. All that is kept is made when a request waits first. */
#include "services/edge/http/edge_suspend.h"
#include "services/edge/http/edge_modules.h"
#include "common/base/invariant.h"

typedef struct edge_suspension {
    ngx_http_request_t  *request;
    edge_ctx_t          *ctx;
    ngx_event_t          wake;    /* posted by whoever resumes */
    ngx_event_t          limit;
    module_id_t          module;
    size_t               body_max;
    unsigned             waiting:1;
    unsigned             back:1;      /* on its way through the phases again */
    unsigned             expired:1;
    unsigned             body_asked:1;
    unsigned             body_done:1;
    unsigned             body_cut:1;
} edge_suspension_t;


static ngx_uint_t
is_reading(const edge_suspension_t *s)
{
    return s->body_asked && !s->body_done;
}


/* What comes of a body that nobody takes to its end would be read as the next request. */
static void
leave_body(edge_suspension_t *s)
{
    if (is_reading(s)) {
        s->request->keepalive = 0;
        s->request->lingering_close = 1;
    }
}


/* From here on resume does nothing. */
static void
stop_waiting(edge_suspension_t *s)
{
    s->waiting = 0;
    leave_body(s);
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

    if (s == NULL || !s->waiting) {
        return;
    }
    stop_waiting(s);
    edge_modules_note(s->module, EDGE_MODULE_ABORTED);
    module = edge_modules[s->module];
    if (module->abort) {
        module->abort(s->request, ctx);
    }
}


/* The client went away, time is over, the connection or the worker ends, or the answer is sent. */
static void
on_request_end(void *data)
{
    edge_suspension_t  *s = data;

    edge_suspend_abort(s->ctx);
}


/* Through the phases again, to edge_route_handler: it asks edge_suspend_take. */
static void
go_back(edge_suspension_t *s)
{
    ngx_connection_t    *c = s->request->connection;
    ngx_http_request_t  *r = s->request;

    s->back = 1;
    ngx_http_set_log_request(c->log, r);
    r->write_event_handler = ngx_http_core_run_phases;
    r->read_event_handler = ngx_http_block_reading;
    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);   /* r and s may be gone */
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
    s->limit.handler = on_limit;   /* not cancelable: a worker that ends waits for it */
    s->limit.data = s;
    s->limit.log = r->connection->log;
    cln->handler = on_request_end;
    cln->data = s;
    ctx->suspension = s;
    return s;
}


/* While nobody reads from the client: is it still there? That it ended its side may have been seen
 * with the request itself, and is not told again. */
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

    r->preserve_body = 1;   /* the upstream gets it, too */
    s->body_done = 1;
    if (s->waiting) {
        watch_client(r);
        edge_module_resume(ctx);
    }
}


ngx_uint_t
edge_suspend_body_is_cut(edge_ctx_t *ctx)
{
    edge_suspension_t  *s = ctx->suspension;

    if (s == NULL || !s->body_asked || s->body_done
        || ctx->body.received <= (off_t) s->body_max)
    {
        return 0;
    }
    s->body_cut = 1;
    edge_module_resume(ctx);
    return 1;
}


static ngx_int_t
start_body(ngx_http_request_t *r, edge_suspension_t *s, size_t max)
{
    ngx_int_t  rc;

    s->body_max = max;
    if (r->headers_in.content_length_n > (off_t) max) {
        s->body_cut = 1;   /* not read at all */
        return NGX_OK;
    }
    s->body_asked = 1;
    rc = ngx_http_read_client_request_body(r, on_body);
    if (rc >= NGX_HTTP_SPECIAL_RESPONSE) {
        return rc;
    }
    r->main->count--;   /* nginx's reader took one, and the request is held without it */
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
        return NGX_DECLINED;
    }
    return s->body_done ? NGX_OK : edge_module_suspend(r, ctx, module, ms);
}


/* ---- the route phase ---- */

ngx_uint_t
edge_suspend_is_waiting(const edge_ctx_t *ctx)
{
    return ctx->suspension && ctx->suspension->waiting;
}


ngx_uint_t
edge_suspend_may_go_on(const edge_ctx_t *ctx)
{
    return ctx->suspension == NULL || !ctx->suspension->body_cut;
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
