/* Deletes rows that a service does not need any more, a few at a time. The copy that sends the
 * outbox does it for all copies. */
#pragma once

#include "common/store/pg.h"

#include <stdbool.h>

/* Deletions of the config log that are kept. A worker that missed more gets a snapshot in any case
 * (DELTA_ROWS in common/resource), so forgetting older ones costs no worker a snapshot. It is twice
 * that number so that this also holds for copies of an older version, which do not know that
 * deletions are forgotten. */
enum { TIDY_DELETIONS_KEPT = 2048 };

/* Revisions that a worker may be behind and still get a delta. */
enum { TIDY_REVISIONS_KEPT = 4096 };

typedef struct tidy_args {
    bool config_log;
    long idempotency_seconds; /* how long a request is remembered by its idempotency key */
    /* Further statements of the service, ended by NULL, each of which deletes at most $1::int rows of
     * what is over; NULL: none. */
    const char *const *statements;
} tidy_args_t;

/* Do one step, which takes some ten milliseconds. *ret_more: there is more to delete. 0 | fault. */
int tidy_step(pg_t *pg, const tidy_args_t *args, bool *ret_more);
