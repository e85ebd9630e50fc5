/* Route modules (modules/module.h): the registry, the hooks of a request in their order, and what
 * modules may call. */
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_suspend.h"
#include "services/edge/http/edge_times.h"
#include "services/edge/events/edge_pack.h"

enum {
    WORKERS_MAX = 64,
    ZONE_MIN = 32 * 1024,
    COUNTERS = EDGE_MODULE_NOTES + MODULE_COUNTERS_MAX
};

#define NO_FILE(name)
#define IN_FILE(name)  extern const edge_module_t  module_##name;
#define MODULE(id, name, file, decision)  file(name)
#include "proto/modules.def"
#undef NO_FILE
#undef IN_FILE

#define NO_FILE(name)  NULL
#define IN_FILE(name)  &module_##name

const edge_module_t *const  edge_modules[MODULE_COUNT] = {
#define MODULE(id, name, file, decision)  [MODULE_##id] = file(name),
#include "proto/modules.def"
};

/* One module's state of a request, in a list of ctx->states. */
typedef struct edge_state {
    struct edge_state  *next;
    module_id_t         module;
    uint64_t            bytes[];   /* the state; uint64_t for its alignment */
} edge_state_t;

typedef struct {
    /* one row per worker, which alone writes to it */
    uint64_t  values[WORKERS_MAX][MODULE_COUNT][COUNTERS];
} counters_t;

/* For each hook, the set of modules that have it: bit i is module i. */
static struct {
    uint32_t  prepare, run, entries, response_header, response_body, describe;
} having;

static ngx_uint_t    entries_max;   /* of all modules together */

static void        *zones[MODULE_COUNT];
static counters_t  *counters;

static ngx_http_output_body_filter_pt  next_body_filter;


/* ---- a request ---- */

/* Does run's result agree with what the module did? NGX_AGAIN without a suspension, or another
 * result with one, is a bug in the module: the request is not served. */
static ngx_uint_t
keeps_contract(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t module,
    ngx_int_t rc)
{
    if ((rc == NGX_AGAIN) == edge_suspend_is_waiting(ctx)
        && (rc != NGX_DECLINED || edge_suspend_may_go_on(ctx)))
    {
        return 1;
    }
    ngx_log_error(NGX_LOG_ALERT, r->connection->log, 0,
                  "postern: module %s broke its contract: it returned %i",
                  module_names[module], rc);
    edge_suspend_abort(ctx);
    return 0;
}


void
edge_modules_prepare(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    uint32_t    left;
    ngx_uint_t  i;

    for (left = ctx->route->enabled & having.prepare; left; left &= left - 1) {
        i = __builtin_ctz(left);
        edge_modules[i]->prepare(r, ctx, ctx->route->configs[i]);
    }
}


ngx_int_t
edge_modules_run(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t first)
{
    ngx_int_t   rc;
    uint32_t    left = ctx->route->enabled & having.run & ~0u << first;
    uint64_t    since;
    ngx_uint_t  i;

    edge_times_begin(r, ctx);
    since = edge_times_now(ctx);
    for (/* void */; left; left &= left - 1) {
        i = __builtin_ctz(left);
        rc = edge_modules[i]->run(r, ctx, ctx->route->configs[i]);
        edge_times_ran(ctx, i, &since);
        if ((ctx->suspension || rc == NGX_AGAIN)
            && !keeps_contract(r, ctx, i, rc))
        {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
        if (rc != NGX_DECLINED) {
            if (rc != NGX_AGAIN) {
                edge_suspend_abort(ctx);   /* its body may be half read */
            }
            return rc;
        }
    }
    return NGX_DECLINED;
}


ngx_uint_t
edge_modules_judge(ngx_http_request_t *r, edge_ctx_t *ctx,
    const route_t *route, int *module)
{
    uint32_t    left;
    ngx_uint_t  i, code;

    for (left = route->enabled; left; left &= left - 1) {
        i = __builtin_ctz(left);
        if (edge_modules[i]->judge) {
            code = edge_modules[i]->judge(r, ctx, route->configs[i]);
            if (code) {
                *module = i;
                return code;
            }
        }
    }
    return 0;
}


ngx_uint_t
edge_modules_entries(const route_t *route, const char **ids)
{
    uint32_t     left;
    ngx_uint_t   i, n = 0;

    for (left = route->enabled & having.entries; left; left &= left - 1) {
        i = __builtin_ctz(left);
        n += edge_modules[i]->entries(route->configs[i], ids + n);
    }
    return n;
}


ngx_int_t
edge_modules_response_header(ngx_http_request_t *r)
{
    uint32_t     left;
    uint64_t     since;
    ngx_int_t    rc;
    ngx_uint_t   i;
    edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx == NULL || ctx->route == NULL || r != r->main) {
        return NGX_OK;
    }
    left = ctx->route->enabled & having.response_header;
    since = left ? edge_times_now(ctx) : 0;
    for (/* void */; left; left &= left - 1) {
        i = __builtin_ctz(left);
        rc = edge_modules[i]->response_header(r, ctx, ctx->route->configs[i]);
        edge_times_ran(ctx, i, &since);
        if (rc != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    return NGX_OK;
}


static ngx_int_t
body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    uint32_t     all, left;
    uint64_t     since;
    ngx_int_t    rc;
    ngx_uint_t   i;
    edge_ctx_t  *ctx = edge_ctx(r);

    all = ctx && ctx->route && r == r->main
          ? ctx->route->enabled & having.response_body : 0;
    since = all ? edge_times_now(ctx) : 0;
    for (left = all; left; left &= left - 1) {
        i = __builtin_ctz(left);
        rc = edge_modules[i]->response_body(r, ctx, ctx->route->configs[i], &in);
        edge_times_ran(ctx, i, &since);
        if (rc != NGX_OK) {
            return NGX_ERROR;
        }
    }
    if (all && in == NULL
        && (r->connection->buffered & ~NGX_HTTP_GZIP_BUFFERED) == 0)
    {
        return NGX_OK;   /* kept back, and nothing else waits: nginx's writer takes that for a mistake */
    }
    return next_body_filter(r, in);
}


void
edge_modules_describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    uint32_t  left;

    for (left = having.describe; left; left &= left - 1) {
        edge_modules[__builtin_ctz(left)]->describe(pk, r, ctx);
    }
}


void
edge_modules_stop(edge_ctx_t *ctx)
{
    edge_state_t  *state;

    for (state = ctx->states; state; state = state->next) {
        if (edge_modules[state->module]->stop) {
            edge_modules[state->module]->stop(state->bytes);
        }
    }
}


void
edge_modules_clean(edge_ctx_t *ctx)
{
    edge_state_t  *state;

    for (state = ctx->states; state; state = state->next) {
        if (edge_modules[state->module]->clean) {
            edge_modules[state->module]->clean(state->bytes);
        }
    }
    ctx->states = NULL;
}


/* ---- what modules call ---- */

void
edge_deny_late(ngx_http_request_t *r, edge_ctx_t *ctx, module_id_t module,
    uintptr_t code)
{
    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: module %s of route %s denied the request with %ui",
                  module_names[module], ctx->route->id, (ngx_uint_t) code);
    edge_modules_note(module, EDGE_MODULE_DENIED);
    ctx->blocked_by = module;
    ctx->error = code;
}


intptr_t
edge_deny(ngx_http_request_t *r, edge_ctx_t *ctx, module_id_t module,
    uintptr_t code, uintptr_t status)
{
    edge_deny_late(r, ctx, module, code);
    ctx->status = status;
    return edge_page(r, ctx, code);
}


void *
edge_module_state_if_any(const edge_ctx_t *ctx, module_id_t module)
{
    edge_state_t  *state;

    for (state = ctx->states; state; state = state->next) {
        if (state->module == module) {
            return state->bytes;
        }
    }
    return NULL;
}


void *
edge_module_state(ngx_http_request_t *r, edge_ctx_t *ctx, module_id_t module)
{
    void          *known = edge_module_state_if_any(ctx, module);
    edge_state_t  *state;

    if (known) {
        return known;
    }
    state = ngx_pcalloc(r->pool, sizeof(edge_state_t)
                                 + edge_modules[module]->state_size);
    if (state == NULL) {
        return NULL;
    }
    state->module = module;
    state->next = ctx->states;
    ctx->states = state;
    return state->bytes;
}


void *
edge_module_zone(module_id_t module)
{
    return zones[module];
}


void
edge_module_count(module_id_t module, unsigned counter)
{
    counters->values[ngx_worker % WORKERS_MAX][module][EDGE_MODULE_NOTES + counter]++;
}


void
edge_modules_note(module_id_t module, edge_module_note_t note)
{
    counters->values[ngx_worker % WORKERS_MAX][module][note]++;
}


/* ---- start ---- */

static ngx_int_t
init_counters(ngx_shm_zone_t *zone, void *old)
{
    ngx_slab_pool_t  *pool = (ngx_slab_pool_t *) zone->shm.addr;

    (void) old;
    counters = ngx_slab_calloc(pool, sizeof(counters_t));
    if (counters == NULL) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: no memory for the modules' counters");
        return NGX_ERROR;
    }
    return NGX_OK;
}


static ngx_int_t
init_zone(ngx_shm_zone_t *zone, void *old)
{
    ngx_uint_t  module = (const edge_module_t *const *) zone->data - edge_modules;

    (void) old;
    zones[module] = edge_modules[module]->zone(zone->shm.addr);
    if (zones[module] == NULL) {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: module %s cannot set up its shared memory of "
                      "%uz bytes", module_names[module], zone->shm.size);
        return NGX_ERROR;
    }
    return NGX_OK;
}


static ngx_int_t
add_zone(ngx_conf_t *cf, const char *name, size_t size,
    ngx_shm_zone_init_pt init, void *data)
{
    ngx_str_t        text;
    ngx_shm_zone_t  *zone;

    text.data = ngx_pnalloc(cf->pool, 64);
    if (text.data == NULL) {
        return NGX_ERROR;
    }
    text.len = ngx_snprintf(text.data, 64, "postern_%s", name) - text.data;
    zone = ngx_shared_memory_add(cf, &text, size, (void *) edge_modules);
    if (zone == NULL) {
        return NGX_ERROR;   /* nginx has logged it, with the zone's name */
    }
    zone->init = init;
    zone->data = data;
    return NGX_OK;
}


/* Bytes of the module's shared memory. */
static size_t
zone_bytes(const edge_module_t *module)
{
    return module->zone_bytes ? module->zone_bytes() : module->zone_size;
}


static ngx_uint_t
is_valid(const edge_module_t *module)
{
    size_t  n = 0;

    while (module->counters && n <= MODULE_COUNTERS_MAX && module->counters[n]) {
        n++;
    }
    return module->state_size <= MODULE_STATE_MAX && n <= MODULE_COUNTERS_MAX
           && (module->entries == NULL) == (module->entries_max == 0)
           && (module->zone == NULL) == (zone_bytes(module) == 0)
           && (module->zone == NULL || zone_bytes(module) >= ZONE_MIN);
}


static ngx_int_t
install_module(ngx_conf_t *cf, ngx_uint_t i)
{
    uint32_t              bit = 1u << i;
    const edge_module_t  *module = edge_modules[i];

    if (module == NULL) {
        return NGX_OK;
    }
    if (!is_valid(module)) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "postern: module %s asks for more state or counters "
                           "than there may be, or for a zone below %d bytes",
                           module_names[i], ZONE_MIN);
        return NGX_ERROR;
    }
    having.prepare |= module->prepare ? bit : 0;
    having.run |= module->run ? bit : 0;
    having.entries |= module->entries ? bit : 0;
    entries_max += module->entries_max;
    having.response_header |= module->response_header ? bit : 0;
    having.response_body |= module->response_body ? bit : 0;
    having.describe |= module->describe ? bit : 0;
    return module->zone == NULL ? NGX_OK
           : add_zone(cf, module_names[i], zone_bytes(module), init_zone,
                      (void *) &edge_modules[i]);
}


/* Runs while the configuration is read. */
ngx_int_t
edge_modules_install(ngx_conf_t *cf)
{
    ngx_uint_t  i;

    ngx_memzero(&having, sizeof(having));
    entries_max = 0;
    for (i = 0; i < MODULE_COUNT; i++) {
        if (install_module(cf, i) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    if (entries_max > EDGE_MODULE_ENTRIES_MAX) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "postern: modules depend on more than %d entries",
                           EDGE_MODULE_ENTRIES_MAX);
        return NGX_ERROR;
    }
    if (having.response_body) {
        next_body_filter = ngx_http_top_body_filter;
        ngx_http_top_body_filter = body_filter;
    }
    return add_zone(cf, "modules", sizeof(counters_t) + ZONE_MIN, init_counters,
                    NULL);
}


void
edge_modules_start(ngx_cycle_t *cycle)
{
    ngx_uint_t  i;

    for (i = 0; i < MODULE_COUNT; i++) {
        if (edge_modules[i] && edge_modules[i]->start) {
            edge_modules[i]->start(cycle);
        }
    }
}


/* ---- /metrics ---- */

static uint64_t
sum_of(ngx_uint_t module, ngx_uint_t counter)
{
    uint64_t    sum = 0;
    ngx_uint_t  i;

    for (i = 0; i < WORKERS_MAX; i++) {
        sum += counters->values[i][module][counter];
    }
    return sum;
}


u_char *
edge_modules_metrics(u_char *p, u_char *end)
{
    ngx_uint_t          i, k;
    const char *const  *names;
    static const char *const  notes[EDGE_MODULE_NOTES] = {
        "denied", "suspended", "resumed", "aborted", "expired"
    };

    for (i = 0; i < MODULE_COUNT; i++) {
        for (k = 0; k < EDGE_MODULE_NOTES; k++) {
            p = ngx_slprintf(p, end, "postern_edge_module_%s_total"
                             "{module=\"%s\"} %uL\n", notes[k],
                             module_names[i], sum_of(i, k));
        }
        names = edge_modules[i] ? edge_modules[i]->counters : NULL;
        for (k = 0; names && names[k]; k++) {
            p = ngx_slprintf(p, end, "postern_edge_module_%s_total"
                             "{module=\"%s\"} %uL\n", names[k], module_names[i],
                             sum_of(i, EDGE_MODULE_NOTES + k));
        }
        if (edge_modules[i] && edge_modules[i]->metrics) {
            p = edge_modules[i]->metrics(p, end);
        }
    }
    return p;
}
