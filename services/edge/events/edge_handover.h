/* A worker's part when its edge is replaced by another master (worker/edge_seat.c has the whole
 * of it). */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Once it serves. */
void edge_handover_start(ngx_cycle_t *cycle);

/* A successor serves: this worker takes no new connections, and each of those it has ends with
 * its next answer. */
ngx_uint_t edge_handover_is_yielding(void);
