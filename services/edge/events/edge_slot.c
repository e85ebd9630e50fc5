#include "services/edge/events/edge_slot.h"
#include "common/base/invariant.h"
#include "services/edge/events/edge_memory.h"
#include "services/edge/worker/edge_conf.h"

enum { IN_FLIGHT_MAX = 1 << 24 };   /* requests of one worker: a larger count is a damaged one */

static ngx_uint_t  workers;


uint64_t
edge_slot_new_boot(void)
{
    return (uint64_t) ngx_time() << 32 | (uint32_t) ngx_random();
}


ngx_int_t
edge_slot_attach(edge_slot_t *one, size_t bytes, ring_t *ret_ring, ngx_log_t *log)
{
    size_t  counters = offsetof(edge_slot_t, memory);

    if (bytes <= counters || ring_attach(ret_ring, &one->memory, bytes - counters) != 0) {
        return NGX_ERROR;
    }
    if (ring_mend(ret_ring, edge_slot_new_boot())) {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "postern: event memory holds what no worker writes: events "
                      "behind that are lost");
    }
    return NGX_OK;
}


void
edge_slot_clear(edge_slot_t *one, size_t ring_bytes)
{
    ring_t  of = { &one->memory, ring_bytes };

    ngx_memzero(one, sizeof(*one));
    ring_clear(&of, edge_slot_new_boot());
}


uint64_t
edge_slot_count_lost(edge_slot_t *one, ring_t *of, ngx_log_t *log)
{
    uint64_t  lost = one->counters.in_flight;

    one->counters.in_flight = 0;
    if (lost == 0 || lost > IN_FLIGHT_MAX) {
        return 0;
    }
    ngx_log_error(NGX_LOG_WARN, log, 0,
                  "postern: %uL requests were in flight when their worker "
                  "ended: they leave no event", lost);
    one->counters.lost += lost;
    ring_drop(of, lost);
    return lost;
}


void
edge_slot_name_producer(char *out, size_t size, ngx_uint_t worker, uint64_t boot)
{
    u_char  *end = ngx_snprintf((u_char *) out, size, "%V/%ui/%xL%Z", &edge_conf()->name,
                                worker, boot);

    INVARIANT(end > (u_char *) out && end[-1] == '\0');   /* a name has 64 bytes at most */
}


/* ---- the slots of all workers ---- */

/* What a killed edge left in its slots is sent by the next one, under the names that it has;
 * counters begin again. */
ngx_int_t
edge_ring_make(ngx_cycle_t *cycle)
{
    ring_t            of;
    edge_slot_t      *one;
    uint64_t          lost;
    ngx_uint_t        i;
    edge_conf_t      *conf = edge_conf();
    ngx_core_conf_t  *core;

    core = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    if (core->worker_processes > RING_WORKERS_MAX) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "postern: more than %d worker processes",
                      RING_WORKERS_MAX);
        return NGX_ERROR;
    }
    workers = core->worker_processes;
    INVARIANT(conf->ring_size >= RING_PARTS * sizeof(ring_record_t));
    if (edge_memory_open(sizeof(edge_slot_t) + conf->ring_size,
                         workers, cycle->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }
    /* slots of workers that this edge does not have any more are emptied by edge_adopt.c */
    for (i = 0; i < workers && (one = edge_memory_slot(i)) != NULL; i++) {
        lost = 0;
        if (one->memory.size == conf->ring_size
            && edge_slot_attach(one, edge_memory_slot_bytes(), &of, cycle->log) == NGX_OK)
        {
            lost = edge_slot_count_lost(one, &of, cycle->log);
        } else {
            edge_slot_clear(one, conf->ring_size);
        }
        ngx_memzero(&one->counters, sizeof(one->counters));
        one->counters.lost = lost;
    }
    for (i = workers; (one = edge_memory_slot(i)) != NULL; i++) {
        if (!edge_slot_is_empty(one, edge_memory_slot_bytes())) {
            return NGX_OK;
        }
    }
    if (i > workers) {
        edge_memory_shrink();
    }
    return NGX_OK;
}


/* Nothing is left in it when all of it was acknowledged or spooled, and what was lost was told. */
void
edge_ring_end(void)
{
    ring_t        of;
    ngx_uint_t    i;
    edge_slot_t  *one;

    for (i = 0; (one = edge_memory_slot(i)) != NULL; i++) {
        if (edge_slot_attach(one, edge_memory_slot_bytes(), &of, ngx_cycle->log) != NGX_OK
            || !ring_is_empty(&of))
        {
            return;
        }
    }
    edge_memory_remove();
}


ngx_uint_t
edge_ring_workers(void)
{
    return workers;
}


edge_counters_t *
edge_ring_counters(ngx_uint_t worker)
{
    edge_slot_t  *one = worker < workers ? edge_memory_slot(worker) : NULL;

    INVARIANT(one == NULL || edge_memory_slot_bytes() > sizeof(*one));
    return one ? &one->counters : NULL;
}


ngx_uint_t
edge_slot_is_empty(const void *at, size_t bytes)
{
    ring_t              of;
    const edge_slot_t  *other = at;

    return bytes <= sizeof(edge_slot_t)
           || ring_attach(&of, (void *) &other->memory,
                          bytes - offsetof(edge_slot_t, memory)) != 0
           || (ring_is_empty(&of) && other->counters.in_flight == 0);
}
