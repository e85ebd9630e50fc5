/* nginx gives up a client that takes nothing of its answer for send_timeout, and begins anew with
 * each byte that it takes: with a byte now and then, which a window of HTTP/2 may say, it keeps the
 * request and its memory for ever. So each request is looked at once in send_timeout. Where bytes
 * wait for the client now, waited at the last look, and did so all the time between, and it took
 * fewer than postern_client_take_min of them, the request ends. Who has all that there is, as
 * between two events of a stream, is not waited for. WebSockets and other tunnels are left alone:
 * both of their ends may be slow by nature, and their memory is small and bounded. */
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_end.h"
#include "services/edge/http/edge_looks.h"
#include "services/edge/http/edge_stall.h"
#include "services/edge/worker/edge_vitals.h"

enum { LOG_EVERY_S = 60 };


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


ngx_uint_t
edge_pace_is_waited_for(ngx_http_request_t *r)
{
    ngx_connection_t  *c = r->connection;

    return r->header_sent && !c->write->ready
           && (c->buffered & (NGX_LOWLEVEL_BUFFERED|NGX_HTTP_WRITE_BUFFERED));
}


/* A byte of a body takes ten on the wire of HTTP/2. */
off_t
edge_pace_body_sent(ngx_http_request_t *r)
{
    return r->connection->sent - (off_t) r->header_size;
}


static ngx_uint_t
is_tunnel(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    return ctx->tunnelled || (r->upstream && r->upstream->upgrade);
}


void
edge_pace_cut(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_msec_t ms)
{
    uint64_t       *slow = &edge_vitals(ngx_worker)->slow_clients;
    static time_t   said;

    (*slow)++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: a client is cut off: it took fewer than %uz "
                      "bytes of its answer in %M ms (number %uL; at most one line "
                      "a minute)", edge_conf()->client_take_min,
                      ms, *slow);
    }
    ctx->request = r;   /* also of one that never had a route */
    edge_end_request(ctx, 0);   /* ctx may be gone from here on */
}


static void
look_at(look_t *look)
{
    edge_ctx_t          *ctx = (edge_ctx_t *) ((char *) look - offsetof(edge_ctx_t, pace.look));
    edge_pace_t         *pace = &ctx->pace;
    ngx_http_request_t  *r = pace->request;
    off_t                sent = edge_pace_body_sent(r), took = sent - pace->sent;

    if (!edge_pace_is_waited_for(r) || is_tunnel(r, ctx)) {
        pace->waited = 0;
        return;
    }
    if (pace->waited && took < (off_t) edge_conf()->client_take_min) {
        edge_pace_cut(r, ctx, edge_conf()->send_timeout);
        return;
    }
    pace->waited = 1;
    pace->sent = sent;
}


static edge_looks_t  looks = { .look_at = look_at };


void
edge_pace_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->pace.request = r;
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
    ngx_uint_t  waits = edge_pace_is_waited_for(r);

    ctx->pace.waited &= waits;
    edge_stall_sent(r, ctx, waits && !is_tunnel(r, ctx));
}


void
edge_pace_start(ngx_cycle_t *cycle)
{
    edge_stall_start(cycle);
    edge_looks_start(&looks, cycle, edge_conf()->send_timeout);
}
