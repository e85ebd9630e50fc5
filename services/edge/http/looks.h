/* Things that are each looked at once in a period, for as long as they are watched: requests, by
 * what has come or gone since the last look. The period is the same for all, so they stand in one
 * queue in the order of time. Whatever is watched, each of these takes the same time, and nothing
 * in here allocates. Without clock, timer and nginx: now_ms is any clock that never goes back. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Between two passes over a queue, at least; a period that is shorter takes its place. */
enum { LOOKS_PAUSE_MS = 1000 };

/* A thing's place in the queue; all zero: it is not watched. */
typedef struct look {
    struct look *previous, *next;
    int64_t at_ms; /* of its next look */
} look_t;

/* For looks_init; it stays where it is, since its links lead to itself. */
typedef struct looks {
    look_t ends; /* next: the first, previous: the last */
    int64_t period_ms;
} looks_t;

/* Nothing is watched yet. period_ms: at least 1. */
void looks_init(looks_t *self, int64_t period_ms);

/* Is it watched? */
bool look_is_watched(const look_t *look);

/* Watch what is not watched: it is looked at a period after now. */
void looks_watch(looks_t *self, look_t *look, int64_t now_ms);

/* Watch it no more, whether or not it was watched; no queue has to be named. */
void looks_forget(look_t *look);

/* The next one whose time has come by now; it stays watched, with its next look a period after now.
 * Borrowed. NULL: none. A pass calls this until it is NULL, which it is once all have been looked
 * at; meanwhile whatever is watched may be forgotten, and more be watched. */
look_t *looks_due(looks_t *self, int64_t now_ms);

/* Milliseconds from now until the next pass; 0: there need not be one, nothing is watched. */
int64_t looks_wait_ms(const looks_t *self, int64_t now_ms);
