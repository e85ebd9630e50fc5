#include "services/edge/http/edge_times.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_event.h"

/* A module that ran took a nanosecond at least, and one that waited a microsecond. */
typedef struct edge_times {
    uint64_t  ran_ns[MODULE_COUNT];
    uint64_t  waited_ns[MODULE_COUNT];
} edge_times_t;


void
edge_times_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->times == NULL && edge_ring_is_wanted()) {
        ctx->times = ngx_pcalloc(r->pool, sizeof(edge_times_t));
    }
}


uint64_t
edge_times_now(const edge_ctx_t *ctx)
{
    struct timespec  now;

    if (ctx->times == NULL) {
        return 0;
    }
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t) now.tv_sec * 1000000000 + now.tv_nsec;
}


void
edge_times_ran(edge_ctx_t *ctx, ngx_uint_t module, uint64_t *since)
{
    uint64_t  now = edge_times_now(ctx);

    if (*since) {
        ctx->times->ran_ns[module] += ngx_max(now - *since, 1);
        *since = now;
    }
}


void
edge_times_waited(edge_ctx_t *ctx, module_id_t module, uint64_t since)
{
    if (since) {
        ctx->times->waited_ns[module] += ngx_max(edge_times_now(ctx) - since, 1);
    }
}


/* A list of name, number for each module that has one; nothing where none has. */
static void
put_list(pack_t *pk, unsigned field, const uint64_t *ns, unsigned unit)
{
    size_t      n = 0;
    ngx_uint_t  i;

    for (i = 0; i < MODULE_COUNT; i++) {
        n += ns[i] > 0;
    }
    if (n == 0) {
        return;
    }
    EVENT_FIELD(field);
    pack_array(pk, 2 * n);
    for (i = 0; i < MODULE_COUNT; i++) {
        if (ns[i]) {
            pack_str(pk, module_names[i], ngx_strlen(module_names[i]));
            pack_int64(pk, (int64_t) ((ns[i] + unit - 1) / unit));
        }
    }
}


void
edge_times_describe(pack_t *pk, const edge_ctx_t *ctx)
{
    if (ctx->times) {
        put_list(pk, EVENT_MODULES_RUN_NS, ctx->times->ran_ns, 1);
        put_list(pk, EVENT_MODULES_WAIT_US, ctx->times->waited_ns, 1000);
    }
}
