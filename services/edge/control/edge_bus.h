/* The worker's part of the config log and of the event intake. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

ngx_int_t edge_bus_open(ngx_cycle_t *cycle);
void edge_bus_start(ngx_cycle_t *cycle); /* once the table from disk is there */
void edge_bus_stop(void);
/* Before the table is asked for a request or a handshake: a worker that stood still learns what is in force. */
void edge_bus_check_pause(void);
void edge_bus_resolved(void); /* backends have addresses: acknowledgements may go */
void edge_bus_send_events(void);
