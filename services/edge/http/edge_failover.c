#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_grpc.h"
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


/* Whether a request is a call of gRPC is its client's word, and an upstream that refuses HTTP/2 may
 * be one of HTTP/1.1: what is known of a member by one says nothing about the other. */
static uint64_t
member_key(ngx_http_request_t *r, backend_t *backend)
{
    return key_of(backend) ^ edge_grpc_is_asked(r);
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
look_up(void *request, const char *id, const backend_t *before)
{
    backend_t  *backend = table_backend(edge_worker_table(), id);

    (void) request;
    if (backend == NULL) {
        return NULL;   /* a tunnel group, too: nobody connects to one yet */
    }
    if (before && backend->choices && backend_shares(backend, before->id)) {
        return table_backend(edge_worker_table(), before->id);   /* its turn has been counted */
    }
    return edge_failover_choose(backend);
}


static bool
can_dial(void *request, backend_t *backend)
{
    struct sockaddr_storage  address;

    return edge_upstream_address(request, backend, &address) != 0;
}


static reach_answer_t
ask_reach(void *request, backend_t *backend, bool take)
{
    return (take ? reach_ask : reach_look)(&shared_zone()->reach,
                                           member_key(request, backend),
                                           ngx_current_msec);
}


static uint64_t
turn_of(void *request, backend_t *failover)
{
    (void) request;
    return rotation_look(&shared_zone()->rotations, key_of(failover));
}


static const failover_ports_t  ports = { look_up, can_dial, ask_reach, turn_of };


/* A trial that is not to be dialled after all is another request's. */
static void
leave_trial(edge_ctx_t *ctx)
{
    if (ctx->failover->known == REACH_TRIAL) {
        reach_left(&shared_zone()->reach, member_key(ctx->request, ctx->backend),
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


ngx_int_t
edge_failover_begin(ngx_http_request_t *r, edge_ctx_t *ctx, backend_t *backend)
{
    ctx->failover = ngx_pcalloc(r->pool, failover_size(backend));
    if (ctx->failover == NULL) {
        return NGX_ERROR;
    }
    failover_begin(ctx->failover, backend);
    backend = failover_choose(ctx->failover, &ports, r);
    count_choice(ctx->failover);
    if (backend == NULL) {
        return NGX_DECLINED;
    }
    backend->refs++;
    ctx->backend = backend;
    return NGX_OK;
}


/* ---- what the log says ---- */

/* nginx writes a line of level error for each dial that fails. A request has one line for all of
 * them, where nobody wants to see each. */
static void
log_less(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_log_t  *log = r->connection->log;

    if (log->log_level < NGX_LOG_INFO && ctx->dials.log_level == 0) {
        ctx->dials.log_level = log->log_level;
        log->log_level = NGX_LOG_ALERT;
    }
}


/* Did it say less? */
static ngx_uint_t
log_all(edge_ctx_t *ctx)
{
    if (ctx->dials.log_level == 0) {
        return 0;
    }
    ctx->request->connection->log->log_level = ctx->dials.log_level;
    ctx->dials.log_level = 0;
    return 1;
}


static void
tell_reached(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    (void) log_all(ctx);
    if (ctx->dials.why) {
        ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                      "postern: members of backend %s were not reached, the "
                      "last one because of this: %s: on to %s",
                      ctx->failover->backend->id, ctx->dials.why,
                      ctx->backend->id);
        ctx->dials.why = NULL;
    }
}


/* What nginx has to say of the last dial is said already. */
static void
tell_not_reached(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t  less = log_all(ctx);

    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "postern: no member of backend %s was reached: %ui dialled%s, "
                  "the last one %s (%s:%d): %s", ctx->failover->backend->id,
                  (ngx_uint_t) ctx->failover->dials,
                  ctx->failover->cut ? ", and no more may be" : "",
                  ctx->backend->id, ctx->backend->host,
                  (int) ctx->backend->port,
                  ctx->dials.why ? ctx->dials.why : "it has no address");
    ctx->dials.why = NULL;
    if (less) {
        log_less(r, ctx);
    }
}


/* ---- on the way ---- */

/* No member is left. Where some were left out, the next request begins with others. */
static ngx_uint_t
give_up(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->failover->cut) {
        (void) rotation_next(&shared_zone()->rotations,
                             key_of(ctx->failover->backend),
                             ngx_current_msec);
    }
    tell_not_reached(r, ctx);
    return 0;
}


/* The request is judged first, as one that waited: since it was chosen or while it was dialled the
 * configuration may have changed, and under its new keys the request counts as judged. The old keys
 * have the old backend's id. */
static ngx_uint_t
move_on(ngx_http_request_t *r, edge_ctx_t *ctx, backend_t *backend)
{
    backend_t  *before = ctx->backend;

    ctx->error = edge_streams_judge(r, ctx);
    backend->refs++;
    ctx->backend = backend;
    edge_streams_again(ctx);
    backend_release(before);
    if (ctx->error) {
        leave_trial(ctx);
        (void) log_all(ctx);
        return 0;
    }
    if (backend->http_response) {
        tell_reached(r, ctx);
    }
    return 1;
}


ngx_uint_t
edge_failover_dial(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    backend_t  *backend = failover_dial(ctx->failover, &ports, r,
                                        ngx_current_msec);

    count_choice(ctx->failover);
    log_less(r, ctx);
    if (backend == NULL) {
        return give_up(r, ctx);
    }
    return backend == ctx->backend || move_on(r, ctx, backend);
}


ngx_uint_t
edge_failover_next(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    backend_t  *backend;

    leave_trial(ctx);
    backend = failover_next(ctx->failover, &ports, r, ngx_current_msec);
    count_choice(ctx->failover);
    if (backend == NULL) {
        return give_up(r, ctx);
    }
    if (!move_on(r, ctx, backend)) {
        return 0;
    }
    ctx->bad_tls = 0;
    edge_module_count(ME, FAILED_OVER);
    return 1;
}


/* ---- what is known of members ---- */

void
edge_failover_failed(ngx_http_request_t *r, edge_ctx_t *ctx, const char *why)
{
    ngx_uint_t      less, trial = ctx->failover->known == REACH_TRIAL;
    reach_member_t  member = {
        member_key(r, ctx->backend),
        keyed_hash(ctx->account_id.data, ctx->account_id.len),
        ctx->backend->id
    };

    ctx->dials.why = why;
    ctx->failover->known = REACH_UP;
    if (reach_failed(&shared_zone()->reach, &member, ngx_current_msec, trial))
    {
        edge_module_count(ME, DOWN);
        less = log_all(ctx);
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: backend %s (%s:%d) cannot be reached: %s: "
                      "failover backends pass it over", ctx->backend->id,
                      ctx->backend->host, (int) ctx->backend->port, why);
        if (less) {
            log_less(r, ctx);
        }
    }
}


static void
note_made(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->failover->known == REACH_UP) {
        return;   /* nothing was known against it */
    }
    ctx->failover->known = REACH_UP;
    if (reach_made(&shared_zone()->reach, member_key(r, ctx->backend))) {
        edge_module_count(ME, UP);
        ngx_log_error(NGX_LOG_NOTICE, r->connection->log, 0,
                      "postern: backend %s is reached again", ctx->backend->id);
    }
}


void
edge_failover_stands(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->failover == NULL) {
        return;
    }
    tell_reached(r, ctx);
    if (r->upstream->peer.cached) {
        leave_trial(ctx);   /* nobody dialled */
    } else {
        note_made(r, ctx);
    }
}


void
edge_failover_leave(edge_ctx_t *ctx)
{
    leave_trial(ctx);
    (void) log_all(ctx);
}


void
edge_failover_end(edge_ctx_t *ctx)
{
    if (ctx->failover) {
        edge_failover_leave(ctx);
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
