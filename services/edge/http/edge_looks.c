#include "services/edge/http/edge_looks.h"
#include "services/edge/control/edge_timer.h"


/* Each look may end its request, and others. */
static void
on_pass(ngx_event_t *ev)
{
    look_t        *look;
    int64_t        wait_ms;
    ngx_uint_t     again;
    edge_looks_t  *self = (edge_looks_t *) ((char *) ev - offsetof(edge_looks_t, timer));

    while ((look = looks_due(&self->queue, (int64_t) ngx_current_msec))) {
        self->look_at(look);
    }
    again = self->rest && self->rest();
    wait_ms = looks_wait_ms(&self->queue, (int64_t) ngx_current_msec);
    if (again && wait_ms == 0) {
        wait_ms = LOOKS_PAUSE_MS;
    }
    if (wait_ms) {
        ngx_add_timer(ev, (ngx_msec_t) wait_ms);
    }
}


void
edge_looks_start(edge_looks_t *self, ngx_cycle_t *cycle, ngx_msec_t period_ms)
{
    looks_init(&self->queue, ngx_max((int64_t) period_ms, 1));
    edge_timer_start(&self->timer, on_pass, cycle->log, 0);
}


void
edge_looks_watch(edge_looks_t *self, look_t *look)
{
    looks_watch(&self->queue, look, (int64_t) ngx_current_msec);
    if (!self->timer.timer_set) {
        ngx_add_timer(&self->timer, (ngx_msec_t) self->queue.period_ms);
    }
}
