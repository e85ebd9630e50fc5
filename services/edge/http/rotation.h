/* Numbers of requests to weighted backends: which member a request is for follows from its number
 * (table_choose), and all workers of an edge number them together. A number for each backend, in
 * memory that they share and that has a bound, in atomic words only. It goes on when weights
 * change. No nginx in here, and no clock: now is in milliseconds, of one that never goes back. */
#pragma once

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
    ROTATIONS_MAX = 16384,
    ROTATION_WAYS =
        16 /* places that one key may have; where all are taken, who was used last longest
                          ago loses its place, and is numbered anew when it comes again */
};

typedef struct rotation {
    _Atomic uint64_t key; /* 0: free */
    _Atomic uint64_t next;
    _Atomic uint64_t used_s; /* when */
} rotation_t;

/* All zero is empty. */
typedef struct rotations {
    rotation_t each[ROTATIONS_MAX];
} rotations_t;

/* The number that the next call of rotation_next returns, or 0 where none has been returned for the
 * key for long. */
uint64_t rotation_look(rotations_t *self, uint64_t key);

/* The number of the next request to the backend with this key, which is not 0. */
uint64_t rotation_next(rotations_t *self, uint64_t key, uint64_t now);
