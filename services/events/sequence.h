/* Where a producer's numbers stand: what of it is new, seen before, early or lost. */
#pragma once

#include "services/events/batch.h"

typedef struct sequence {
    char producer[sizeof(((batch_t *)0)->producer)];
    bool known;                    /* last is from the database */
    int64_t last;                  /* number of the last event that was taken */
    int64_t events, dropped, lost; /* taken since it was loaded; lost: numbers that never came */
} sequence_t;

enum { SEQUENCE_NEW, SEQUENCE_OLD, SEQUENCE_EARLY };

/* Take the batch if it comes next. One that leaves a gap is early: what is missing may still come,
 * unless the producer says that this is the oldest that it has. */
int sequence_take(sequence_t *self, const batch_t *batch);
