#include "services/edge/control/edge_clock.h"
#include "services/edge/events/edge_ring.h"

#include <time.h>


static uint64_t
clock_microseconds(clockid_t clock)
{
    struct timespec  now;

    clock_gettime(clock, &now);
    return (uint64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}


uint64_t
edge_clock_us(void)
{
    return clock_microseconds(CLOCK_MONOTONIC);
}


uint64_t
edge_clock_boot_ms(void)
{
    return clock_microseconds(CLOCK_BOOTTIME) / 1000;
}


uint64_t
edge_clock_turn_begin(void)
{
    return clock_microseconds(CLOCK_THREAD_CPUTIME_ID);
}


void
edge_clock_turn_end(uint64_t begin)
{
    uint64_t          took = edge_clock_turn_begin() - begin;
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    if (took > counters->config_turn_us) {
        counters->config_turn_us = took;
    }
}
