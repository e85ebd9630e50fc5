/* A producer's sequence of numbers: which of its events are new, were seen before, came too early,
 * or are lost. */
#pragma once

#include "services/events/batch.h"

typedef struct sequence {
    char producer[sizeof(((batch_t *)0)->producer)];
    bool known;   /* last was read from the database */
    int64_t last; /* number of the last event that was taken */
    /* since it was loaded: events taken, given up by the producer, and lost: numbers that never
     * came */
    int64_t events, dropped, lost;
} sequence_t;

enum { SEQUENCE_NEW, SEQUENCE_OLD, SEQUENCE_EARLY };

/* Take a batch if it comes next in order. A batch that leaves a gap is early, because what is
 * missing may still come, unless the producer says that this batch is the oldest that it has. */
int sequence_take(sequence_t *self, const batch_t *batch);
