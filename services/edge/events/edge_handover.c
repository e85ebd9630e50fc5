#include "services/edge/events/edge_handover.h"
#include "services/edge/events/edge_adopt.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_seat.h"

#include <ngx_event.h>

enum { YIELD_MS = 5000, TURN_MS = 100 };

static ngx_event_t       turn_timer;
static ngx_connection_t  timer_dummy;
static ngx_uint_t        yielding, told;
static ngx_msec_t        yield_began;


ngx_uint_t
edge_handover_is_yielding(void)
{
    return yielding || ngx_exiting;
}


/* Connections that come now wait for the successor: the sockets are its own as well. */
static void
accept_connections(ngx_uint_t on)
{
    ngx_uint_t        i;
    ngx_event_t      *ev;
    ngx_listening_t  *ls = ngx_cycle->listening.elts;

    for (i = 0; i < ngx_cycle->listening.nelts; i++) {
        ev = ls[i].connection ? ls[i].connection->read : NULL;
        if (ev == NULL || ev->active == on) {
            continue;
        }
        if ((on ? ngx_add_event(ev, NGX_READ_EVENT, 0)
                : ngx_del_event(ev, NGX_READ_EVENT, 0)) != NGX_OK)
        {
            ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                          "postern: cannot %s accepting connections",
                          on ? "go on" : "stop");
        }
    }
}


static void
set_yielding(ngx_uint_t on)
{
    yielding = on;
    yield_began = ngx_current_msec;
    accept_connections(!on);
    if (ngx_worker == 0) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      on ? "postern: another edge serves now: this one ends its "
                           "connections"
                         : "postern: the edge that was to replace this one is "
                           "gone: this one goes on");
    }
}


/* A worker's parent is its master; one that was orphaned has nobody to tell. */
static void
tell_master(void)
{
    told = 1;
    if (getppid() == ngx_parent && kill(ngx_parent, SIGQUIT) != 0) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, ngx_errno,
                      "postern: cannot tell the master process %P to quit: "
                      "send it QUIT", ngx_parent);
    }
}


static void
on_turn(ngx_event_t *ev)
{
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    if (counters->ready) {
        edge_seat_say_ready();
    }
    if (!ngx_exiting) {
        if (edge_seat_is_succeeded() != yielding) {
            set_yielding(!yielding);
        }
        if (yielding && !told && ngx_current_msec - yield_began >= YIELD_MS) {
            tell_master();   /* each worker does: once is enough, twice the same */
        }
    }
    edge_adopt();
    ngx_add_timer(ev, TURN_MS);
}


void
edge_handover_start(ngx_cycle_t *cycle)
{
    timer_dummy.fd = (ngx_socket_t) -1;
    turn_timer.handler = on_turn;
    turn_timer.log = cycle->log;
    turn_timer.data = &timer_dummy;
    turn_timer.cancelable = 1;   /* a graceful exit does not wait for it */
    ngx_add_timer(&turn_timer, 1);
}
