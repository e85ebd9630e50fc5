/* What each route has served, in memory that all workers of an edge share: a row for each of
 * as many routes as there is room for, and one for all others. A worker finds a route's row
 * when its entry is applied, and counts a request with a few atomic additions. A row is given
 * back when its route is gone; its turn is another then, so that who still has the old one
 * counts with the others. No lock and no nginx in here: whoever takes, drops or sweeps rows
 * holds a lock over all workers, and may die with it. */
#pragma once

#include "services/edge/table/table.h"

enum {
    TALLY_CLASSES = 5, /* of status: 1xx to 5xx */
    TALLY_ID_MAX = 63  /* bytes of a route's id that gets a row */
};

/* Only ever rise, while the row is one route's. */
typedef struct tally_counts {
    uint64_t requests[TALLY_CLASSES];
    uint64_t request_bytes, response_bytes; /* of bodies */
    uint64_t upstream_errors;
} tally_counts_t;

/* Of one request. */
typedef struct tally_request {
    unsigned status;
    uint64_t request_bytes, response_bytes;
    bool upstream_failed;
} tally_request_t;

typedef struct tally tally_t;

/* Bytes of memory for so many rows beside that of the others. */
size_t tally_size(size_t rows);
/* In memory of that size, which is all zero and aligned for 64 bytes. */
tally_t *tally_init(void *memory, size_t rows);

/* The row of the route with this id, taken now if it has none: by a worker that applies revision of
 * the log whose id has this hash. Zero: there is no row left, or the id is not one of a label. */
route_place_t tally_take(tally_t *self, const char *id, uint64_t log, int64_t revision);
/* The route is gone. */
void tally_drop(tally_t *self, const char *id);
/* Drop the rows of all routes that are in no table: is_there says it of an id. Rows that a worker
 * took which is ahead, at a later revision of the same log, stay. What a worker left half done that
 * died in the middle of taking or dropping a row is put in order. */
void tally_sweep(tally_t *self, bool (*is_there)(void *context, const char *id), void *context,
                 uint64_t log, int64_t revision);

/* Count a request of the route that has this place. Any worker at any time, without the lock. */
void tally_count(tally_t *self, route_place_t place, const tally_request_t *request);

/* How many rows are taken; without the lock, so that it is only about right. */
size_t tally_taken(const tally_t *self);
/* Row number, from 0, that of the others, to the number of rows: its counts, and its route's id,
 * "" for the others. False: no route has it, or it changes hands now. Without the lock. */
bool tally_read(const tally_t *self, size_t number, char id[TALLY_ID_MAX + 1],
                tally_counts_t *counts);
