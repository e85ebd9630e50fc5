/* postern health: asks every service's and edge's /readyz, and prints a line for each. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* One item of POSTERN_HEALTH_URLS: host:port, or name=host:port. */
typedef struct health_item {
    char name[64]; /* "": the item has none */
    char address[256];
} health_item_t;

/* Read an item, without the comma. False: it has no host:port, or is longer than there is room. */
bool health_item_read(health_item_t *self, const char *text);

/* What the complete answer of an HTTP/1.0 request for /readyz says, NUL-terminated; "": none came.
 * Writes one line to out, without its end, "ready" or "not ready: " and the reason, and behind a
 * "ready" a line for each problem that does not change it; bytes that a terminal would obey are
 * '?'. True: all is well. False: it is not ready, or an edge's worker hears of no changes. */
bool health_read_answer(const char *answer, char *out, size_t size);

/* Ask all of the comma-separated items, one after the other, each for about 2 s at most, and print
 * what they say. EXIT_SUCCESS: all are ready | EXIT_FAILURE. */
int health_run(const char *items);
