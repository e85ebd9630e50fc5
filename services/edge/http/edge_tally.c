#include "services/edge/http/edge_tally.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/worker/tally.h"
#include "common/base/err.h"

enum {
    ROUTE_BYTES = 1536,   /* of text: eight lines of at most 180 bytes */
    MORE = 16             /* routes that may come while the text is written */
};

static tally_t          *tally;   /* NULL: the edge has no configuration */
static ngx_slab_pool_t  *pool;    /* its mutex is freed by nginx when a worker dies */


/* ---- start ---- */

static ngx_int_t
init_zone(ngx_shm_zone_t *zone, void *old)
{
    size_t   rows = edge_conf()->route_metrics;
    u_char  *memory;

    (void) old;
    pool = (ngx_slab_pool_t *) zone->shm.addr;
    memory = ngx_slab_calloc(pool, tally_size(rows) + NGX_ALIGNMENT * 8);
    if (memory == NULL) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: no memory for the counters of %uz routes", rows);
        return NGX_ERROR;
    }
    tally = tally_init(ngx_align_ptr(memory, 64), rows);
    return NGX_OK;
}


ngx_int_t
edge_tally_install(ngx_conf_t *cf)
{
    size_t                 size = tally_size(edge_conf()->route_metrics);
    ngx_shm_zone_t        *zone;
    static ngx_str_t       name = ngx_string("postern_routes");

    /* what nginx's allocator needs for itself is less than a sixteenth */
    zone = ngx_shared_memory_add(cf, &name, size + size / 16 + 64 * 1024,
                                 (void *) &tally);
    if (zone == NULL) {
        return NGX_ERROR;   /* nginx has logged it, with the zone's name */
    }
    zone->init = init_zone;
    return NGX_OK;
}


/* ---- a change ---- */

/* Which log and revision is being applied. */
static uint64_t
applied(int64_t *revision)
{
    const follow_t  *at = edge_worker_at();
    const char      *log = at->arriving ? at->arriving_log_id : at->log_id;

    *revision = at->arriving ? at->arriving_revision : at->revision;
    return (uint64_t) ngx_crc32_long((u_char *) log, ngx_strlen(log));
}


void
edge_tally_add_route(route_t *route)
{
    int64_t   revision;
    uint64_t  log = applied(&revision);

    ngx_shmtx_lock(&pool->mutex);
    route->place = tally_take(tally, route->id, log, revision);
    ngx_shmtx_unlock(&pool->mutex);
}


void
edge_tally_drop_route(const route_t *route)
{
    ngx_shmtx_lock(&pool->mutex);
    tally_drop(tally, route->id);
    ngx_shmtx_unlock(&pool->mutex);
}


static bool
is_in_table(void *table, const char *id)
{
    return strmap_get(((const table_t *) table)->routes, id, strlen(id)) != NULL;
}


void
edge_tally_sweep(const table_t *table)
{
    int64_t   revision;
    uint64_t  log = applied(&revision);

    ngx_shmtx_lock(&pool->mutex);
    tally_sweep(tally, is_in_table, (void *) table, log, revision);
    ngx_shmtx_unlock(&pool->mutex);
}


/* ---- a request ---- */

/* Pages of the edge for what it did not get of an upstream. */
static bool
has_upstream_failed(const edge_ctx_t *ctx)
{
    return ctx->error == ERR_EDGE_REFUSED || ctx->error == ERR_EDGE_TIMEOUT
           || ctx->error == ERR_EDGE_BAD_TLS;
}


void
edge_tally_count(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    off_t            received, sent;
    tally_request_t  request;

    if (ctx->route == NULL) {
        return;
    }
    received = edge_body_received(r, ctx);
    sent = edge_body_sent(r, ctx);
    request = (tally_request_t) {
        .status = r->err_status ? r->err_status : r->headers_out.status,
        .request_bytes = ngx_max(received, 0),
        .response_bytes = ngx_max(sent, 0),
        .upstream_failed = has_upstream_failed(ctx)
    };
    tally_count(tally, ctx->route->place, &request);
}


/* ---- /metrics ---- */

size_t
edge_tally_bytes(void)
{
    return tally ? (tally_taken(tally) + 1 + MORE) * ROUTE_BYTES : 0;
}


static u_char *
write_row(u_char *p, u_char *end, const char *id, const tally_counts_t *counts)
{
    ngx_uint_t   i;
    const char  *route = *id ? id : "other";

    for (i = 0; i < TALLY_CLASSES; i++) {
        if (counts->requests[i]) {
            p = ngx_slprintf(p, end, "postern_edge_route_requests_total"
                             "{route=\"%s\",status=\"%uixx\"} %uL\n",
                             route, i + 1, counts->requests[i]);
        }
    }
    return ngx_slprintf(p, end,
        "postern_edge_route_request_body_bytes_total{route=\"%s\"} %uL\n"
        "postern_edge_route_response_body_bytes_total{route=\"%s\"} %uL\n"
        "postern_edge_route_upstream_errors_total{route=\"%s\"} %uL\n",
        route, counts->request_bytes, route, counts->response_bytes,
        route, counts->upstream_errors);
}


u_char *
edge_tally_metrics(u_char *p, u_char *end)
{
    char            id[TALLY_ID_MAX + 1];
    size_t          i;
    tally_counts_t  counts;

    for (i = 0; tally && i <= edge_conf()->route_metrics; i++) {
        if (end - p < ROUTE_BYTES) {
            break;
        }
        if (tally_read(tally, i, id, &counts)) {
            p = write_row(p, end, id, &counts);
        }
    }
    return p;
}
