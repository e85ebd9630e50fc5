/* backend: a static upstream through nginx's proxy, or a fixed answer of the edge; of a weighted or
 * failover backend one of its members (http/edge_failover.h). */
#include "services/edge/control/edge_resolve.h"
#include "services/edge/http/edge_answer.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "services/edge/table/document.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/table/slab.h"
#include "common/base/err.h"


/* Only the backend's id is kept: a backend is created, changed and deleted independently of the
 * routes that refer to it. */
static void *
parse(const msgpack_object *document, bool *bad)
{
    return document_str(document, "backend_id", bad);
}


static unsigned
entries(const void *config, const char **ids)
{
    ids[0] = config;
    return config != NULL;
}


static ngx_int_t
run_failover(ngx_http_request_t *r, edge_ctx_t *ctx, backend_t *backend)
{
    ngx_int_t  rc = edge_failover_begin(r, ctx, backend);

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (rc == NGX_DECLINED) {
        return edge_deny(r, ctx, MODULE_BACKEND, ERR_EDGE_REFUSED, 0);
    }
    if (ctx->backend->http_response) {
        r->content_handler = edge_answer;
    }
    return NGX_DECLINED;
}


static ngx_int_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    backend_t                *backend;
    struct sockaddr_storage   address;

    backend = config ? table_backend(edge_worker_table(), config) : NULL;
    if (backend && backend->member_count) {
        return run_failover(r, ctx, backend);
    }
    backend = backend ? edge_failover_choose(backend) : NULL;
    if (backend == NULL) {
        return edge_deny(r, ctx, MODULE_BACKEND, ERR_EDGE_NO_BACKEND, 0);
    }
    backend->refs++;
    ctx->backend = backend;
    if (backend->http_response) {
        r->content_handler = edge_answer;
    } else if (edge_resolve_address(backend, &address) == 0) {
        /* the backend's host name does not resolve */
        return edge_deny(r, ctx, MODULE_BACKEND, ERR_EDGE_REFUSED, 0);
    }
    return NGX_DECLINED;
}


static ngx_uint_t
is_same_upstream(const backend_t *one, const backend_t *other)
{
    return one->host == NULL || other->host == NULL
           || (ngx_strcmp(one->host, other->host) == 0
               && one->port == other->port && one->tls == other->tls);
}


/* A deleted backend ends its requests. Where the backend has another address by now, or the route
 * another backend, requests may finish: only upgraded connections, which could stay for ever, end.
 * One that stays depends on the way by which the configuration leads there now, which need not be
 * the one that it went. */
static ngx_uint_t
judge(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    backend_t  *now, *backend, *through;

    if (ctx->backend == NULL) {
        return 0;   /* not chosen yet */
    }
    backend = config ? table_backend(edge_worker_table(), config) : NULL;
    now = table_backend(edge_worker_table(), ctx->backend->id);
    if (backend == NULL || now == NULL) {
        return ERR_EDGE_NO_BACKEND;
    }
    if (r->upstream == NULL || !r->upstream->upgrade) {
        return 0;
    }
    if (!table_leads_to(edge_worker_table(), backend, now->id, &through)
        || !is_same_upstream(now, ctx->backend))
    {
        return ERR_EDGE_CHANGED;
    }
    edge_streams_stay(ctx, through);
    return 0;
}


static void
describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    EVENT_BOOL(EVENT_BACKEND_CONNECTION_REUSED,
               r->upstream && (r->upstream->peer.cached || ctx->cut_off)
               && !ctx->backend->http_response);
}


const edge_module_t  module_backend = {
    .parse = parse,
    .free = slab_free,
    .run = run,
    .judge = judge,
    .entries = entries,
    .entries_max = 1,
    .zone = edge_failover_zone,
    .zone_size = EDGE_FAILOVER_ZONE,
    .describe = describe,
    .counters = edge_failover_counters,
};
