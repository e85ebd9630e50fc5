/* How many open streams each of the newest changes has ended at the edges. Its text form, "revision
 * number revision number ...", is part of acknowledgements (proto/WIRE.md) and of the config log's
 * reports to its service. No sockets. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ENDED_MAX = 16, ENDED_BYTES = ENDED_MAX * 42 };

typedef struct ended_change {
    int64_t revision, streams;
} ended_change_t;

typedef struct ended {
    int count;
    ended_change_t list[ENDED_MAX]; /* in the order of their revisions */
} ended_t;

/* Parse the text form; NULL or "": no changes. False: malformed, and *self is empty. */
bool ended_read(ended_t *self, const char *text);
/* Write the text form. */
void ended_write(const ended_t *self, char out[ENDED_BYTES]);

/* Add another worker's numbers; beyond ENDED_MAX changes the oldest are dropped. */
void ended_add(ended_t *self, const ended_t *other);

/* Streams ended by that change. 0: none, or the change is not among the newest any more. */
int64_t ended_at(const ended_t *self, int64_t revision);

/* Streams that are new in self since before: each acknowledgement repeats the numbers of earlier
 * ones. */
int64_t ended_more(const ended_t *self, const ended_t *before);
