/* Deadlines of requests. A request says how long its sender goes on waiting, because machines share
 * no clock; that time counts from its arrival. But a request may have waited in a queue before,
 * while this process was stopped. It must not be executed late: its sender has given up, and may
 * have done something else since. How long it waited is computed from the sender's monotonic clock,
 * where the difference to ours is known (clock_gap_t). */
#pragma once

#include "common/bus/bus.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEADLINE_LEFT_MAX_MS = 60000 };

/* Difference between our monotonic clock and another process's: the least that was seen in the
 * current or the last half minute, that of the message with the shortest delay. Clocks drift apart,
 * so older values are forgotten. All zero: unknown. */
typedef struct clock_gap {
    int64_t least_ms
        /* our clock at arrival minus theirs at sending; of this half minute and the last one */
        [2];
    int64_t since_ms; /* when this half minute began; 0: unknown */
} clock_gap_t;

/* Note a message that was sent at theirs_ms of the sender's clock and arrived at now_ms of ours. */
void clock_gap_take(clock_gap_t *self, int64_t theirs_ms, int64_t now_ms);

/* When a request arrived. */
typedef struct arrival {
    int64_t at_ms;  /* monotonic */
    int64_t gap_ms; /* difference to the sender's clock, if knows_gap */
    bool knows_gap;
} arrival_t;

/* gap NULL: the sender's clock is unknown. */
arrival_t arrival_now(const clock_gap_t *gap, int64_t now_ms);

/* The deadline of a decoded request on our monotonic clock, ms. */
int64_t arrival_deadline(const arrival_t *self, const request_t *request);
