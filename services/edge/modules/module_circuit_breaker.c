/* circuit_breaker: a route whose upstream fails is not asked for a while. The rules are
 * breaker.c's. */
#include "common/base/err.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/http/edge_grpc.h"
#include "services/edge/modules/breaker.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/slab.h"
#include "services/edge/worker/edge_worker.h"

#include <sodium.h>

#define ME  MODULE_CIRCUIT_BREAKER

enum { OPENED, CLOSED, TRIALS, REPLACED };

static const char *const  counters[] = {
    "opened", "closed", "trials", "replaced", NULL
};

typedef struct {
    breaker_rules_t  rules;
    uint64_t         key;   /* 0: no request came yet */
} breaker_config_t;

typedef struct {
    breaker_ticket_t    ticket;
    breaker_decision_t  decision;
    unsigned            waits:1;   /* for the answer */
} breaker_state_t;


static void *
parse_breaker(const msgpack_object *document, bool *bad)
{
    breaker_config_t  *config = slab_alloc(sizeof(breaker_config_t));

    breaker_rules_parse(&config->rules, document, bad);
    return config;
}


/* nginx has just mapped the memory: it is all zero, and so no page of it is touched before it is
 * used. */
static void *
make_zone(void *slab_pool)
{
    breakers_t  *breakers = ngx_slab_alloc(slab_pool, sizeof(breakers_t));

    if (breakers == NULL || sodium_init() < 0) {
        return NULL;
    }
    randombytes_buf(breakers->secret, sizeof(breakers->secret));
    return breakers;
}


/* Of the route and the rules: parse does not know the route. */
static uint64_t
key_of(const char *route_id, breaker_config_t *config)
{
    if (config->key == 0) {
        config->key = breaker_key(edge_module_zone(ME), route_id,
                                  &config->rules);
    }
    return config->key;
}


static bool
is_gone(const char *route_id, uint64_t key)
{
    route_t  *route = strmap_get(edge_worker_table()->routes, route_id,
                                 ngx_strlen(route_id));

    return route == NULL || (route->enabled & (1u << ME)) == 0
           || key_of(route_id, route->configs[ME]) != key;
}


static void
tell_change(ngx_http_request_t *r, edge_ctx_t *ctx, const breaker_state_t *state,
    const breaker_rules_t *rules, breaker_change_t change)
{
    uint64_t  all, failed;

    switch (change) {
    case BREAKER_SAME:
        return;
    case BREAKER_OPENED:
        breaker_window(state->ticket.breaker, rules, ngx_current_msec, &all,
                       &failed);
        edge_module_count(ME, OPENED);
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: the circuit breaker of route %s opened: %uL of "
                      "%uL requests failed", ctx->route->id, failed, all);
        return;
    case BREAKER_CLOSED:
        edge_module_count(ME, CLOSED);
        ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                      "postern: the circuit breaker of route %s closed: its "
                      "trial was answered", ctx->route->id);
        return;
    case BREAKER_STILL_OPEN:
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: the circuit breaker of route %s stays open: "
                      "its trial failed", ctx->route->id);
        return;
    }
}


/* Is the request there with all of its body? Of chunks nobody knows before they are read. */
static ngx_uint_t
is_whole(ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream) {
        return r->stream->in_closed;
    }
#endif
    return !r->headers_in.chunked
           && r->headers_in.content_length_n
              <= (off_t) (r->header_in->last - r->header_in->pos);
}


static intptr_t
ask_breaker(ngx_http_request_t *r, edge_ctx_t *ctx, const void *data)
{
    breaker_route_t    route;
    breaker_state_t   *state = edge_module_state(r, ctx, ME);
    breaker_config_t  *config = (breaker_config_t *) data;
    breaker_change_t   change;

    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    route.key = key_of(ctx->route->id, config);
    route.id = ctx->route->id;
    route.account = ctx->route->account_id;
    route.account_len = ctx->route->account_id_len;
    state->decision = breaker_ask(edge_module_zone(ME), &route, &config->rules,
                                  is_whole(r), ngx_current_msec, is_gone,
                                  &state->ticket, &change);
    tell_change(r, ctx, state, &config->rules, change);
    if (state->ticket.replaced) {
        edge_module_count(ME, REPLACED);
    }
    if (state->decision == BREAKER_BLOCK) {
        return edge_deny(r, ctx, ME, ERR_EDGE_CIRCUIT_OPEN, 0);
    }
    if (state->decision == BREAKER_ALLOW_WHILE_OPEN) {
        edge_module_count(ME, TRIALS);
    }
    state->waits = 1;
    return NGX_DECLINED;
}


/* Was the upstream still waiting for the client, so that it may have given up for want of the body?
 * An upstream that nobody could connect to did not. */
static ngx_uint_t
waits_for_client(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    ngx_http_upstream_t  *u = r->upstream;

    return (r->reading_body || ctx->writer.stopped) && u && u->state
           && u->state->connect_time != (ngx_msec_t) -1;
}


/* Does a failure say nothing, because the request was a call of gRPC, which any client may make,
 * and there may be HTTP/1.1 only? A member that refused HTTP/2 is passed over by later calls, and then
 * a fixed answer stands in for it. */
static ngx_uint_t
is_no_http2(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    return ctx->no_http2
           || (ctx->failover && ctx->backend && ctx->backend->http_response
               && edge_grpc_is_asked(r));
}


/* 501: the upstream does not know the method, which is the client's choice. GET and HEAD are known
 * to each (RFC 9110, 9.1). */
static ngx_uint_t
is_unknown_method(const ngx_http_request_t *r)
{
    return r->headers_out.status == NGX_HTTP_NOT_IMPLEMENTED
           && !(r->method & (NGX_HTTP_GET | NGX_HTTP_HEAD));
}


/* Did the upstream answer, or whatever the route has in its place? Pages of the edge say so only
 * where they are for want of its answer: who was denied, or left, or was wrong, never asked it. */
static ngx_uint_t
is_of_upstream(ngx_http_request_t *r, const edge_ctx_t *ctx, ngx_uint_t *failed)
{
    switch (ctx->error) {
    case 0:
        *failed = r->headers_out.status >= NGX_HTTP_INTERNAL_SERVER_ERROR;
        return ((r->upstream && r->upstream->headers_in.status_n)
                || (ctx->tunnel   /* the edge's own 101: the upstream was reached */
                    && r->headers_out.status == NGX_HTTP_SWITCHING_PROTOCOLS)
                || (ctx->backend && ctx->backend->http_response))
               && !(*failed
                    && (is_no_http2(r, ctx) || waits_for_client(r, ctx)
                        || is_unknown_method(r)));
    case ERR_EDGE_REFUSED:
        *failed = 1;
        return !ctx->no_http2 && !waits_for_client(r, ctx);
    case ERR_EDGE_BAD_TLS:
        *failed = 1;
        return !ctx->no_http2;
    case ERR_EDGE_TIMEOUT:   /* while the client sends, only an upstream that takes nothing */
        *failed = 1;
        return 1;
    default:
        return 0;
    }
}


static void
forget(breaker_state_t *state)
{
    if (state->waits) {
        breaker_forget(edge_module_zone(ME), &state->ticket, ngx_current_msec);
    }
    state->waits = 0;
}


/* The status decides: a stream may go on for days after it, and a client take its time for a page.
 * What says nothing of the upstream ends the trial as well. */
static intptr_t
tell_breaker(ngx_http_request_t *r, edge_ctx_t *ctx, const void *data)
{
    ngx_uint_t               failed;
    breaker_change_t         change;
    breaker_state_t         *state = edge_module_state_if_any(ctx, ME);
    const breaker_config_t  *config = data;

    if (state == NULL || !state->waits) {
        return NGX_OK;
    }
    if (!is_of_upstream(r, ctx, &failed)) {
        forget(state);
        return NGX_OK;
    }
    state->waits = 0;
    change = breaker_tell(edge_module_zone(ME), &state->ticket, &config->rules,
                          ngx_current_msec, failed);
    tell_change(r, ctx, state, &config->rules, change);
    return NGX_OK;
}


static void
forget_breaker(void *data)
{
    forget(data);
}


/* What it denied is said for it. */
static void
describe_breaker(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    breaker_state_t  *state = edge_module_state_if_any(ctx, ME);

    (void) r;
    if (state == NULL || ctx->blocked_by == (int) ME) {
        return;
    }
    if (state->decision == BREAKER_ALLOW) {
        EVENT_WORD(EVENT_CIRCUIT_BREAKER_DECISION, "allow");
    } else if (state->decision == BREAKER_ALLOW_WHILE_OPEN) {
        EVENT_WORD(EVENT_CIRCUIT_BREAKER_DECISION, "allow_while_open");
    }
}


const edge_module_t  module_circuit_breaker = {
    .parse = parse_breaker,
    .free = slab_free,
    .zone = make_zone,
    .zone_size = sizeof(breakers_t) + sizeof(breakers_t) / 32 + 64 * 1024,
    .state_size = sizeof(breaker_state_t),
    .run = ask_breaker,
    .response_header = tell_breaker,
    .clean = forget_breaker,
    .describe = describe_breaker,
    .counters = counters,
};
