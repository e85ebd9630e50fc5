#include "services/edge/control/edge_timer.h"

/* nginx logs the connection of a timer */
static ngx_connection_t  nobody = { .fd = (ngx_socket_t) -1 };


void
edge_timer_start(ngx_event_t *ev, void (*handler)(ngx_event_t *), ngx_log_t *log,
    ngx_msec_t after)
{
    ev->handler = handler;
    ev->log = log;
    ev->data = &nobody;
    ev->cancelable = 1;
    if (after) {
        ngx_add_timer(ev, after);
    }
}
