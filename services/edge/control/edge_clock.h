/* Clocks of the edge's own processes. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Microseconds of a clock that never goes back. */
uint64_t edge_clock_us(void);

/* Milliseconds of a clock that never goes back, and goes on while the machine sleeps. */
uint64_t edge_clock_boot_ms(void);

/* Microseconds of processor time of this thread, so that a busy machine does not look like a long
 * turn: begin of edge_clock_turn_end. */
uint64_t edge_clock_turn_begin(void);

/* The turn of the event loop that began then was for the configuration: the longest is counted. */
void edge_clock_turn_end(uint64_t begin);
