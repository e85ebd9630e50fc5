/* What a service need not know any more, deleted a little at a time: one for all copies of it, in the turn of the outbox. */
#pragma once

#include "common/store/pg.h"

#include <stdbool.h>

/* Deletions of the config log that are kept. A worker that missed more than these is too far behind for a delta (DELTA_ROWS
 * in replog.c) whether they are kept or not, so forgetting the others costs nobody a snapshot. Twice as many, so that this
 * holds for copies of an older version, too, which do not know that anything is forgotten. */
enum { TIDY_DELETIONS_KEPT = 2048 };

/* Revisions by which a worker may be behind and still get a delta. */
enum { TIDY_REVISIONS_KEPT = 4096 };

typedef struct tidy_args {
    bool config_log;
    long idempotency_seconds; /* that a request is remembered */
} tidy_args_t;

/* One step, which takes some ten milliseconds. *ret_more: there is something left for the next. 0 | fault. */
int tidy_step(pg_t *pg, const tidy_args_t *args, bool *ret_more);
