/* Until when a request is worth working on. It says how long its sender waits still, by no clock
 * that two machines share: that counts from when it came. What lay in a queue meanwhile, because
 * this process stood still, came late and must not be done: its sender gave up, and may have
 * done something else since. How long it lay there is seen where the sender's own clock is
 * known. */
#pragma once

#include "common/bus/bus.h"

#include <stdbool.h>
#include <stdint.h>

enum { DEADLINE_LEFT_MAX_MS = 60000 };

/* Another process's monotonic clock against ours: the least that a message of it seemed to take
 * in the last half minute, or the one before that. Clocks drift apart, so what is older does not
 * count. All zero: nothing is known. */
typedef struct clock_gap {
    int64_t least_ms
        /* ours when a message came, less theirs when it was sent; of this half minute and the
         * last */
        [2];
    int64_t since_ms; /* when this half minute began; 0: nothing is known */
} clock_gap_t;

/* A message that was sent when their clock said so came now. */
void clock_gap_take(clock_gap_t *self, int64_t theirs_ms, int64_t now_ms);

/* What is known of a request when it comes. */
typedef struct arrival {
    int64_t at_ms;  /* monotonic */
    int64_t gap_ms; /* of the sender's clock */
    bool knows_gap;
} arrival_t;

/* gap NULL: nothing is known of the sender's clock. */
arrival_t arrival_now(const clock_gap_t *gap, int64_t now_ms);

/* Of a request that was decoded, on our monotonic clock. */
int64_t arrival_deadline(const arrival_t *self, const request_t *request);
