/* nginx gives up a client whose socket accepts nothing of its answer for send_timeout. That is too
 * late for one that takes a byte now and then, as a window of HTTP/2 may say, and keeps the request
 * and its memory for ever; and it is too early for one that takes ten kilobytes a second of the
 * megabytes that its socket holds. So each request is looked at a few times in send_timeout, and
 * goes by what the client has taken (taken.h). Where bytes have waited for the client for
 * send_timeout, all the time, and it took fewer than postern_client_take_min of them, the request
 * ends (pace.h). nginx's own timers are put off meanwhile. Who has all that there is, as between
 * two events of a stream, is not waited for.
 *
 * With HTTP/2 the answer ends, and others on its connection go on, as long as these take that much.
 * Its head, and a frame that nginx has begun to send, stand in the connection's queue until the
 * client takes what is before them, and keep the request's memory, and its charge, until then, but
 * nothing that the worker lends. Where the connection as a whole carries too little, or the rest is
 * there for PACE_ENDED times that long, all of it ends. So it is with an answer whose stream the
 * client itself has reset, but that one ends nothing: its connection has its own time.
 *
 * WebSockets and other tunnels are left alone as long as their client takes something: both of
 * their ends may be slow by nature, and their memory is small and bounded. */
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_end.h"
#include "services/edge/http/edge_looks.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_stall.h"
#include "services/edge/http/edge_taken.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/err.h"

enum {
    LOOKS_IN_TIMEOUT = 4,
    LOG_EVERY_S = 60
};


void
edge_pace_check(ngx_conf_t *cf, edge_conf_t *conf)
{
    ngx_http_core_srv_conf_t   **servers;
    ngx_http_core_loc_conf_t    *clcf;
    ngx_http_core_main_conf_t   *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    if (cmcf->servers.nelts) {
        servers = cmcf->servers.elts;
        clcf = servers[0]->ctx->loc_conf[ngx_http_core_module.ctx_index];
        conf->send_timeout = clcf->send_timeout;
        conf->body_timeout = clcf->client_body_timeout;
    }
}


/* Is there something for the client that its socket, or its window, does not accept? */
static ngx_uint_t
is_waited_for(ngx_http_request_t *r)
{
    ngx_connection_t  *c = r->connection;

    return r->header_sent && !c->write->ready
           && (c->buffered & (NGX_LOWLEVEL_BUFFERED|NGX_HTTP_WRITE_BUFFERED));
}


static ngx_uint_t
is_tunnel(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    return ctx->tunnelled || (r->upstream && r->upstream->upgrade);
}


/* Frames of its answer wait for what others have written to its connection: its own window has let
 * them through. */
static ngx_uint_t
is_behind_others(const ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    return r->stream && r->stream->queued;
#else
    (void) r;
    return 0;
#endif
}


static pace_look_t
measure(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    off_t  taken = edge_taken_measure(ctx);

    return (pace_look_t) {
        .now_ms = (int64_t) ngx_current_msec, .taken = taken,
        .carried = taken_of_connection(&ctx->pace.taken), .behind = is_behind_others(r)
    };
}


static const pace_rule_t *
rule_of(void)
{
    static pace_rule_t  rule;

    rule.period_ms = (int64_t) edge_conf()->send_timeout;
    rule.least = (int64_t) edge_conf()->client_take_min;
    return &rule;
}


void
edge_pace_cut(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes, ngx_msec_t ms)
{
    uint64_t       *slow = &edge_vitals(ngx_worker)->slow_clients;
    pace_look_t     now = measure(r, ctx);
    static time_t   said;

    (*slow)++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: a client is cut off: it took fewer than %uz "
                      "bytes of its answer in %M ms (number %uL; at most one line "
                      "a minute)", bytes, ms, *slow);
    }
    edge_stall_end(ctx);   /* its upstream's connection is closed */
    pace_end(&ctx->pace.judged, &now);
    ctx->request = r;   /* also of one that never had a route */
    edge_end_answer(ctx, ERR_EDGE_ANSWER_SLOW);   /* ctx may be gone from here on */
}


/* ---- nginx's own timers, of a request and of the connection that carries it ---- */

static ngx_uint_t
is_timed(ngx_http_request_t *r)
{
    return r->connection->write->timer_set || edge_taken_connection(r)->write->timer_set;
}


static void
put_off(ngx_connection_t *c)
{
    if (c->write->timer_set && !c->write->delayed) {
        ngx_add_timer(c->write, edge_conf()->send_timeout);
    }
}


static void
put_off_timers(ngx_http_request_t *r)
{
    put_off(r->connection);
    put_off(edge_taken_connection(r));
}


/* Of a request that is not judged here, or has been written to the end of what there is. */
static void
look_at_timers(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    off_t  before = taken_of_connection(&ctx->pace.taken);

    if (is_timed(r)) {
        (void) edge_taken_measure(ctx);
        if (taken_of_connection(&ctx->pace.taken) > before) {
            put_off_timers(r);
        }
    }
}


/* ---- looks ---- */

/* nginx has ended the request, as where its client has reset the stream, and keeps frames of it
 * that are on their way. */
static ngx_uint_t
is_over(const ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    return r->stream && r->connection->error
           && (r->upstream == NULL || r->upstream->cleanup == NULL);
#else
    (void) r;
    return 0;
#endif
}


static void
look_at_rest(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    pace_t       *judged = &ctx->pace.judged;
    pace_look_t   now = measure(r, ctx);

    edge_stall_end(ctx);
    edge_reader_stop(ctx);
    edge_modules_stop(ctx);
    if (judged->ended ? pace_judge(judged, &now, rule_of()) == PACE_GOES_ON
                      : pace_may_wait(judged, &now, rule_of()))
    {
        put_off_timers(r);
    } else if (judged->ended) {
        edge_end_soon(ctx);
    }
}


static void
look_at_answer(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    pace_look_t  now = measure(r, ctx);
    unsigned     verdict = pace_judge(&ctx->pace.judged, &now, rule_of());

    if (verdict == PACE_GOES_ON) {
        put_off_timers(r);
        return;
    }
    if (verdict & PACE_FORCE) {
        edge_end_soon(ctx);
    }
    edge_pace_cut(r, ctx, edge_conf()->client_take_min, edge_conf()->send_timeout);
}


static void
look_at(look_t *look)
{
    edge_ctx_t          *ctx = (edge_ctx_t *) ((char *) look - offsetof(edge_ctx_t, pace.look));
    ngx_http_request_t  *r = ctx->pace.request;

    if (ctx->pace.judged.ended || is_over(r)) {
        look_at_rest(r, ctx);
    } else if (is_waited_for(r) && !is_tunnel(r, ctx)) {
        look_at_answer(r, ctx);
    } else {
        pace_rest(&ctx->pace.judged);
        look_at_timers(r, ctx);
    }
}


static edge_looks_t  looks = { .look_at = look_at };


void
edge_pace_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->pace.request = r;
    edge_taken_begin(r, ctx);
    edge_looks_watch(&looks, &ctx->pace.look);
}


void
edge_pace_end(edge_ctx_t *ctx)
{
    edge_stall_end(ctx);
    looks_forget(&ctx->pace.look);
}


void
edge_pace_sent(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t  waits = is_waited_for(r);

    if (ctx->pace.judged.ended) {
        return;
    }
    if (!waits) {
        pace_rest(&ctx->pace.judged);
    }
    edge_stall_sent(ctx, waits && !is_tunnel(r, ctx));
}


void
edge_pace_start(ngx_cycle_t *cycle)
{
    edge_stall_start(cycle);
    edge_looks_start(&looks, cycle, edge_conf()->send_timeout / LOOKS_IN_TIMEOUT);
}
