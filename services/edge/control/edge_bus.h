/* A worker's part of the bus, from beginning to end: its helper process, the config log, the
 * event intake, and the beat that keeps all of them up. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Start the helper: before the worker has anything of its own, since the helper keeps the pages
 * that it was made with. */
ngx_int_t edge_bus_open(ngx_cycle_t *cycle);

/* Once the table from disk is there. Returns when the config log was heard, or was waited for in
 * vain. */
void edge_bus_start(ngx_cycle_t *cycle);

/* The worker ends: say goodbye, give all events away or keep them, and end the helper. */
void edge_bus_stop(void);
