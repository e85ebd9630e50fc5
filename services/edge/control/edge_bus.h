/* A worker's part of the bus, from beginning to end: its helper process, the config log, the
 * event intake, and the beat that keeps all of them up. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Fork the helper process. To be called first: the helper keeps every page of memory that the
 * worker has by then. NGX_OK | NGX_ERROR. */
ngx_int_t edge_bus_open(ngx_cycle_t *cycle);

/* Connect to the bus, after the table has been loaded from the state file. Returns when the
 * config log has answered, or the time to wait for it has run out. */
void edge_bus_start(ngx_cycle_t *cycle);

/* The worker ends: say bye to the config log, send the events that wait or leave them in the
 * ring for the next worker, and end the helper. */
void edge_bus_stop(void);
