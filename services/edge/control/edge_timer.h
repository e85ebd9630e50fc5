#pragma once

#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_event.h>

/* A timer of a worker's that does not keep a graceful exit waiting. after 0: it is not set yet. */
void edge_timer_start(ngx_event_t *ev, void (*handler)(ngx_event_t *), ngx_log_t *log,
                      ngx_msec_t after);
