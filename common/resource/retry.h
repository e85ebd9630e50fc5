/* How long a worker waits before it runs a request again that PostgreSQL could not run. */
#pragma once

#include <stdint.h>

enum {
    RETRY_MS = 50,      /* where there is no connection; and the longest pause after a conflict */
    RETRY_FIRST_MS = 20 /* after the first conflict; after each further one up to twice as long */
};

/* After a deadlock or another conflict, the tries-th from 0: at once would meet the same other one
 * again, which goes on and has its locks still, and two that wait equally long meet each other. So
 * long as chance has it, 1 us to the bound; short, because the worker waits. */
unsigned retry_pause_us(unsigned tries, uint32_t chance);
