#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/http/edge_upstream.h"
#include "services/edge/http/rotation.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_worker.h"

#include <sodium.h>

#define ME  MODULE_BACKEND

enum { FAILED_OVER, PASSED_OVER, TRIALS, DOWN, UP };

const char *const  edge_failover_counters[] = {
    "failed_over", "passed_over", "trials", "members_down", "members_up", NULL
};

typedef struct {
    u_char       secret[crypto_shorthash_KEYBYTES];   /* random bytes; never changes */
    reach_t      reach;
    rotations_t  rotations;
} zone_t;

_Static_assert(sizeof(zone_t) + sizeof(zone_t) / 32 + 64 * 1024
               <= EDGE_FAILOVER_ZONE, "nginx's pool needs some of it");


/* nginx has just mapped the memory: it is all zero, and so no page of it is touched before it is
 * used. */
void *
edge_failover_zone(void *slab_pool)
{
    zone_t  *zone = ngx_slab_alloc(slab_pool, sizeof(zone_t));

    if (zone) {
        randombytes_buf(zone->secret, sizeof(zone->secret));
    }
    return zone;
}


static zone_t *
shared_zone(void)
{
    return edge_module_zone(ME);
}


static uint64_t
keyed_hash(const void *data, size_t len)
{
    u_char    out[crypto_shorthash_BYTES];
    uint64_t  hash;

    crypto_shorthash(out, data, len, shared_zone()->secret);
    ngx_memcpy(&hash, out, sizeof(hash));
    return hash;
}


/* Whoever makes backends chooses what backend_key is made of, and must not choose whose places are
 * taken. With its highest bit set. */
static uint64_t
key_of(backend_t *backend)
{
    uint64_t  key = backend_key(backend);

    return keyed_hash(&key, sizeof(key)) | 1ull << 63;
}


/* ---- choosing ---- */

backend_t *
edge_failover_choose(backend_t *backend)
{
    uint64_t  number = 0;

    if (backend->choices) {
        number = rotation_next(&shared_zone()->rotations, key_of(backend),
                               ngx_current_msec);
    }
    return table_choose(edge_worker_table(), backend, number);
}


static backend_t *
look_up(void *request, const char *id, backend_t **ret_through)
{
    backend_t  *backend = table_backend(edge_worker_table(), id);

    (void) request;
    if (backend == NULL) {
        return NULL;   /* a tunnel group, too: nobody connects to one yet */
    }
    *ret_through = backend->choices ? backend : NULL;
    return edge_failover_choose(backend);
}


static bool
can_dial(void *request, backend_t *backend)
{
    struct sockaddr_storage  address;

    return edge_upstream_address(request, backend, &address) != 0;
}


static reach_answer_t
ask_reach(void *request, backend_t *backend)
{
    (void) request;
    return reach_ask(&shared_zone()->reach, key_of(backend),
                     ngx_current_msec);
}


static const failover_ports_t  ports = { look_up, can_dial, ask_reach };


/* A trial that is not to be dialled after all is another request's. */
static void
leave_trial(edge_ctx_t *ctx)
{
    if (ctx->failover->known == REACH_TRIAL) {
        reach_left(&shared_zone()->reach, key_of(ctx->backend),
                   ngx_current_msec);
        ctx->failover->known = REACH_UP;
    }
}


static void
count_choice(const failover_t *failover)
{
    unsigned  i;

    for (i = 0; i < failover->passed; i++) {
        edge_module_count(ME, PASSED_OVER);
    }
    if (failover->current && failover->known == REACH_TRIAL) {
        edge_module_count(ME, TRIALS);
    }
}


/* Releases the one before, which ctx->failover still holds: whoever has its name or its id, as the
 * registry of open streams, may go on. */
static ngx_uint_t
choose_next(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    backend_t  *backend = failover_next(ctx->failover, &ports, r);

    count_choice(ctx->failover);
    if (backend == NULL) {
        return 0;
    }
    backend->refs++;
    backend_release(ctx->backend);
    ctx->backend = backend;
    return 1;
}


ngx_int_t
edge_failover_begin(ngx_http_request_t *r, edge_ctx_t *ctx, backend_t *backend)
{
    ctx->failover = ngx_pcalloc(r->pool, failover_size(backend));
    if (ctx->failover == NULL) {
        return NGX_ERROR;
    }
    failover_begin(ctx->failover, backend);
    return choose_next(r, ctx) ? NGX_OK : NGX_DECLINED;
}


/* The request is judged first, as one that waited: while it was dialled the configuration may have
 * changed, and under its new keys the request counts as judged. */
ngx_uint_t
edge_failover_next(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    backend_t  *before = ctx->backend;

    leave_trial(ctx);
    ctx->error = edge_streams_judge(r, ctx);
    if (ctx->error || !choose_next(r, ctx)) {
        return 0;
    }
    edge_streams_again(ctx);
    ctx->bad_tls = 0;
    edge_module_count(ME, FAILED_OVER);
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: backend %s was not reached: on to %s", before->id,
                  ctx->backend->id);
    return 1;
}


/* ---- what is known of members ---- */

void
edge_failover_failed(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t      trial = ctx->failover->known == REACH_TRIAL;
    reach_member_t  member = {
        key_of(ctx->backend),
        keyed_hash(ctx->account_id.data, ctx->account_id.len),
        ctx->backend->id
    };

    ctx->failover->known = REACH_UP;
    if (reach_failed(&shared_zone()->reach, &member, ngx_current_msec, trial))
    {
        edge_module_count(ME, DOWN);
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: backend %s (%s:%d) cannot be reached: failover "
                      "backends pass it over", ctx->backend->id,
                      ctx->backend->host, (int) ctx->backend->port);
    }
}


void
edge_failover_made(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->failover->known == REACH_UP) {
        return;   /* nothing was known against it */
    }
    ctx->failover->known = REACH_UP;
    if (reach_made(&shared_zone()->reach, key_of(ctx->backend))) {
        edge_module_count(ME, UP);
        ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                      "postern: backend %s is reached again", ctx->backend->id);
    }
}


void
edge_failover_end(edge_ctx_t *ctx)
{
    if (ctx->failover) {
        leave_trial(ctx);
        failover_end(ctx->failover);
        ctx->failover = NULL;
    }
}


u_char *
edge_failover_metrics(u_char *p, u_char *end)
{
    enum { LISTED = 32 };
    size_t  i, count;
    char    ids[LISTED][REACH_ID_MAX];

    count = reach_list(&shared_zone()->reach, ngx_current_msec, ids, LISTED);
    p = ngx_slprintf(p, end, "postern_edge_members_down %uz\n", count);
    for (i = 0; i < ngx_min(count, LISTED); i++) {
        p = ngx_slprintf(p, end, "postern_edge_member_down{backend=\"%s\"} 1\n",
                         ids[i]);
    }
    return p;
}
