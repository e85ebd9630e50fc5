/* Finds the requests being served that a change of the configuration no longer allows, and ends
 * them.
 *
 * A request is judged when it arrives. While it lasts (a WebSocket, server-sent events, a long
 * download, a wait for the upstream) it is judged again whenever a change concerns something that
 * it depends on, by the same table and in the same order: host, TLS settings, the account's IP
 * restriction, route, modules. The
 * registry (streams/registry.h) finds the requests that depend on an entry. A few are judged in
 * each turn of the event loop, so that other requests do not wait for long; the change is
 * acknowledged when all have been judged. */
#include "services/edge/http/edge_streams.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/session_entries.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_end.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_restriction.h"
#include "services/edge/http/edge_handshake.h"
#include "services/edge/streams/registry.h"
#include "services/edge/streams/sweeps.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/retired.h"
#include "services/edge/table/table.h"
#include "common/base/err.h"

/* limits of one turn of the event loop */
enum {
    LOOKED_AT = 256,
    ENDED = 32,   /* ending one costs as much as serving a request */
    TURN_US = 5000   /* a module may need milliseconds to judge one */
};

/* Modules that a request goes by a session for. */
#define SIGN_IN  (1u << MODULE_OAUTH | 1u << MODULE_OIDC | 1u << MODULE_SAML)

static registry_t   registry;
static sweeps_t     sweeps;
static ngx_event_t  turn;
static ngx_uint_t   started;   /* this process is a worker and serves requests */


static edge_ctx_t *
ctx_of(const stream_t *stream)
{
    return (edge_ctx_t *) ((char *) stream - offsetof(edge_ctx_t, stream));
}


/* The version of its route by which the request was judged last. */
static const route_t *
route_of(const edge_ctx_t *ctx)
{
    return ctx->standing ? ctx->standing : ctx->route;
}


static stream_key_t
key_of(stream_kind_t kind, const char *id)
{
    return (stream_key_t) { kind, id, ngx_strlen(id) };
}


static stream_key_t
key_of_session(const u_char *hash)
{
    return (stream_key_t) { STREAM_SESSION, (const char *) hash, SESSION_ENTRY_HASH };
}


static unsigned
keys_of(const stream_t *stream, stream_key_t *keys)
{
    unsigned           n = 0;
    ngx_uint_t         i, count;
    const char        *entries[EDGE_MODULE_ENTRIES_MAX];
    const edge_ctx_t  *ctx = ctx_of(stream);

    keys[n++] = key_of(STREAM_ROUTE, ctx->route->id);
    keys[n++] = key_of(STREAM_EDGE, ctx->route->edge_id);
    if (ctx->route->account_id) {
        keys[n++] = key_of(STREAM_ACCOUNT, ctx->route->account_id);
    }
    if (ctx->backend) {
        keys[n++] = key_of(STREAM_ENTRY, ctx->backend->id);
    }
    if (ctx->through) {
        keys[n++] = key_of(STREAM_ENTRY, ctx->through->id);
    }
    if (ctx->session) {
        keys[n++] = key_of_session(ctx->session);
    }
    count = edge_modules_entries(route_of(ctx), entries);
    for (i = 0; i < count; i++) {
        if (ctx->backend == NULL || ngx_strcmp(entries[i], ctx->backend->id) != 0) {
            keys[n++] = key_of(STREAM_ENTRY, entries[i]);
        }
    }
    return n;
}


void
edge_streams_add(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->request = r;
    registry_add(&registry, &ctx->stream, sweeps.number);
}


void
edge_streams_again(edge_ctx_t *ctx)
{
    registry_remove(&registry, &ctx->stream);
    registry_add(&registry, &ctx->stream, sweeps.number);
}


void
edge_streams_remove(edge_ctx_t *ctx)
{
    registry_remove(&registry, &ctx->stream);
    edge_end_forget(ctx);
    route_release(ctx->standing);
    ctx->standing = NULL;
    backend_release(ctx->through);
    ctx->through = NULL;
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
    } else if ((route->enabled ^ ctx->route->enabled)
               & (1u << MODULE_WEBSOCKET_TCP_CONVERTER))
    {
        module = MODULE_WEBSOCKET_TCP_CONVERTER;   /* the route speaks another protocol by now */
        code = ERR_EDGE_CHANGED;
    } else if (ctx->session && ((route->enabled ^ ctx->route->enabled) & SIGN_IN)) {
        module = __builtin_ctz(ctx->route->enabled & SIGN_IN);   /* nobody vouches for it now */
        code = ERR_EDGE_CHANGED;
    } else {
        code = edge_modules_judge(r, ctx, route, &module);
    }
    if (code && !r->header_sent) {
        ctx->blocked_by = module;
    }
    return code;
}


/* Does the request keep a version that is over? Those of its route that judged it last, and of the
 * backend that it stays through, do not count: it takes the newest when it is judged. */
static ngx_uint_t
keeps_too_old(const edge_ctx_t *ctx)
{
    return ctx->route->version.is_over
           || (ctx->backend && ctx->backend->version.is_over)
           || (ctx->failover && failover_holds_over(ctx->failover));
}


/* The request may go on under a new version of its route, which may depend on other entries:
 * register it under the new keys. */
static void
stand_on(edge_ctx_t *ctx, route_t *route)
{
    if (route == route_of(ctx)) {
        return;
    }
    registry_remove(&registry, &ctx->stream);   /* it is registered under the last version's keys */
    route->refs++;
    route_release(ctx->standing);
    ctx->standing = route;
    registry_add(&registry, &ctx->stream, sweeps.number);
}


/* Under the new key it counts as judged by all changes, which it is when the other modules have
 * judged it, too; where one of them denies it, it ends. */
void
edge_streams_stay(edge_ctx_t *ctx, backend_t *through)
{
    if (through == ctx->through) {
        return;
    }
    registry_remove(&registry, &ctx->stream);   /* the old key's text is the old backend's */
    if (through) {
        through->refs++;
    }
    backend_release(ctx->through);
    ctx->through = through;
    registry_add(&registry, &ctx->stream, sweeps.number);
}


ngx_uint_t
edge_streams_judge(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_t      *edge;
    route_t     *route;
    ngx_uint_t   code;

    if (keeps_too_old(ctx)) {
        return ERR_EDGE_CHANGED;
    }
    edge = table_edge(edge_worker_table(), (char *) ctx->host.data, ctx->host.len);
    if (edge == NULL || !edge->present) {
        return ERR_EDGE_NO_HOST;
    }
    if (edge_tls_agrees(r, edge, ctx) != NGX_OK) {
        return ERR_EDGE_MISDIRECTED;
    }
    code = edge_restriction_judge(r, ctx, edge);
    if (code) {
        return code;
    }
    if (edge_is_refused(edge)) {
        return ERR_EDGE_ENTRY_REFUSED;
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
    code = judge_modules(r, ctx, route);
    if (code == 0) {
        stand_on(ctx, route);
    }
    return code;
}


ngx_uint_t
edge_streams_upgrade(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    r->upstream->upgrade = 1;
    ctx->error = edge_streams_judge(r, ctx);
    r->upstream->upgrade = ctx->error == 0;
    return ctx->error;
}


/* Nothing is left to end: the response is complete or an error page, or the connection is
 * broken. */
static ngx_uint_t
is_over(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    return r->done || ctx->error || r->connection->error;
}


/* ctx may have been freed when this returns. */
static void
end_stream(edge_ctx_t *ctx, ngx_uint_t code, const sweep_change_t *change)
{
    ngx_http_request_t  *r = ctx->request;

    ngx_http_set_log_request(r->connection->log, r);
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: the configuration no longer allows a request of "
                  "route %s: ended with %ui", ctx->route->id, code);
    edge_ring_counters(ngx_worker)->streams_ended++;
    if (change->log != SWEEPS_NO_LOG) {
        edge_ack_count_ended(change->log, change->revision);
    }
    registry_remove(&registry, &ctx->stream);
    if (keeps_too_old(ctx)) {
        edge_end_soon(ctx);
    }
    edge_end_request(ctx, code);
}


/* Judges a request and ends it where it may not go on. Was it ended? */
static ngx_uint_t
judge_stream(edge_ctx_t *ctx, const sweep_change_t *change)
{
    ngx_uint_t  code;

    if (is_over(ctx->request, ctx)) {
        if (keeps_too_old(ctx)) {
            edge_end_soon(ctx);   /* the end of its answer keeps it */
        }
        return 0;
    }
    code = edge_streams_judge(ctx->request, ctx);
    if (code) {
        end_stream(ctx, code, change);
    }
    return code != 0;
}


static void
on_turn(ngx_event_t *ev)
{
    stream_t        *stream;
    unsigned         budget = LOOKED_AT;
    uint64_t         until = edge_clock_us() + TURN_US;
    ngx_uint_t       ended = 0;
    sweep_change_t   change;

    while (ended < ENDED && edge_clock_us() < until
           && (stream = sweeps_next(&sweeps, &budget, &change)))
    {
        ended += judge_stream(ctx_of(stream), &change);
    }
    edge_ack_set_judged(sweeps_done(&sweeps));
    if (!sweeps_are_done(&sweeps)) {
        ngx_post_event(ev, &ngx_posted_next_events);   /* after other requests' events */
    }
}


/* Judging is posted, not done here: a change may be applied while another request is being
 * handled. */
static void
post_turn(void)
{
    if (sweeps_are_done(&sweeps)) {
        edge_ack_set_judged(sweeps_done(&sweeps));   /* nothing is open */
    } else if (!turn.posted) {
        ngx_post_event(&turn, &ngx_posted_events);
    }
}


static void
ask_sweeps(edge_log_t log, const stream_key_t *key)
{
    sweep_change_t  change = { log, edge_log(log)->at()->revision };

    if (started) {
        edge_ack_expect_judged(log, sweeps_ask(&sweeps, key, change));
        post_turn();
    }
}


void
edge_streams_touch_here(const u_char *hash)
{
    stream_key_t  key = key_of_session(hash);

    if (started) {
        edge_ack_pass_judged(sweeps_ask(&sweeps, &key, (sweep_change_t) { SWEEPS_NO_LOG, 0 }));
        post_turn();
    }
}


void
edge_streams_touch(const stream_key_t *key)
{
    ask_sweeps(EDGE_LOG_CONFIG, key);
}


void
edge_streams_touch_session(const u_char *hash)
{
    stream_key_t  key = { STREAM_ALL, "", 0 };

    if (hash) {
        key = key_of_session(hash);
    }
    ask_sweeps(EDGE_LOG_SESSIONS, &key);
}


/* Too many versions of the account's entries are kept: this is the oldest of them. Requests of a
 * failover backend keep members that they are not found by, so all of the account are looked at. */
static void
on_over(const retired_entry_t *entry)
{
    stream_key_t  key = { STREAM_ALL, "", 0 };

    if (entry->kind == RETIRED_ROUTE) {
        key = key_of(STREAM_ROUTE, entry->id);
    } else if (entry->account_id) {
        key = key_of(STREAM_ACCOUNT, entry->account_id);
    }
    edge_streams_touch(&key);
}


void
edge_streams_start(ngx_cycle_t *cycle)
{
    retired_set_over(on_over);
    registry_init(&registry, keys_of);
    sweeps_init(&sweeps, &registry);
    turn.handler = on_turn;
    turn.log = cycle->log;
    started = 1;
    edge_end_start(cycle);
}
