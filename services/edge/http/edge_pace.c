/* nginx gives up a client whose socket accepts nothing of its answer for send_timeout. That is too
 * late for one that takes a byte now and then, as a window of HTTP/2 may say, and keeps the request
 * and its memory for ever; and it is too early for one that takes ten kilobytes a second of the
 * megabytes that its socket holds. So each request is looked at a few times in send_timeout, and
 * goes by what the client has taken (taken.h). Where bytes have waited for the client for
 * send_timeout, all the time, and it took fewer than postern_client_take_min of them, the request
 * ends. nginx's own timers are put off meanwhile. Who has all that there is, as between two events
 * of a stream, is not waited for.
 *
 * With HTTP/2 the answer ends, and others on its connection go on, as long as these take that much.
 * Frames of it that nginx has begun to send stand in the connection's queue until the client takes
 * what is before them, and keep the request's memory, and its charge, until then. Where the
 * connection as a whole carries too little, all of it ends.
 *
 * WebSockets and other tunnels are left alone as long as their client takes something: both of
 * their ends may be slow by nature, and their memory is small and bounded. */
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_end.h"
#include "services/edge/http/edge_looks.h"
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


/* What the client has by the last measurement is enough, for the next send_timeout. */
static void
begin_time(edge_pace_t *pace)
{
    pace->since = ngx_current_msec;
    pace->had = taken_bytes(&pace->taken);
    pace->carried = taken_of_connection(&pace->taken);
}


void
edge_pace_cut(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes, ngx_msec_t ms)
{
    uint64_t       *slow = &edge_vitals(ngx_worker)->slow_clients;
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
    begin_time(&ctx->pace);
    ctx->pace.ended = 1;
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

static ngx_uint_t
carries_enough(const edge_pace_t *pace)
{
    return taken_of_connection(&pace->taken) - pace->carried
           >= (off_t) edge_conf()->client_take_min;
}


/* Of what was cut off already the rest has to wait for what else its connection carries. */
static ngx_uint_t
takes_enough(const edge_pace_t *pace)
{
    return pace->ended ? carries_enough(pace)
                       : taken_bytes(&pace->taken) - pace->had
                         >= (off_t) edge_conf()->client_take_min;
}


static void
end_slow(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (!carries_enough(&ctx->pace)) {
        edge_end_soon(ctx);
    }
    if (!ctx->pace.ended) {
        edge_pace_cut(r, ctx, edge_conf()->client_take_min, edge_conf()->send_timeout);
    }
}


static void
look_at(look_t *look)
{
    edge_ctx_t          *ctx = (edge_ctx_t *) ((char *) look - offsetof(edge_ctx_t, pace.look));
    edge_pace_t         *pace = &ctx->pace;
    ngx_http_request_t  *r = pace->request;

    if (!pace->ended && (!is_waited_for(r) || is_tunnel(r, ctx))) {
        pace->waited = 0;
        look_at_timers(r, ctx);
        return;
    }
    (void) edge_taken_measure(ctx);
    if (!pace->waited || takes_enough(pace)) {
        begin_time(pace);
        pace->waited = 1;
    } else if ((ngx_msec_int_t) (ngx_current_msec - pace->since)
               >= (ngx_msec_int_t) edge_conf()->send_timeout)
    {
        end_slow(r, ctx);
        return;
    }
    put_off_timers(r);
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

    if (ctx->pace.ended) {
        return;
    }
    ctx->pace.waited &= waits;
    edge_stall_sent(ctx, waits && !is_tunnel(r, ctx));
}


void
edge_pace_start(ngx_cycle_t *cycle)
{
    edge_stall_start(cycle);
    edge_looks_start(&looks, cycle, edge_conf()->send_timeout / LOOKS_IN_TIMEOUT);
}
