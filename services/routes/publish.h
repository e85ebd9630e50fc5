/* What a version before did not publish: rows are found by statements of their kinds and given to
 * the config log, when a copy starts and each --renew-seconds. */
#pragma once

#include "common/resource/crud.h"

/* The document that edges get of a row: as in the kind's rules. */
typedef int publish_fn(crud_t *crud, const json_t *row, json_t **ret_document);

typedef struct publish_pass {
    const char
        *sql; /* at most so many rows of (kind, id, row as JSON) as its last parameter says; it,
                      * or publish, marks them as published */
    publish_fn *publish; /* NULL: entries whose objects are gone, which have no row */
    const char *given;   /* its $1; NULL: it has the last parameter only */
} publish_pass_t;

/* Do the passes, one after the other, until each finds nothing more. what: name of the lock that
 * copies take turns by. *ret_count: entries published; *ret_revision: of the last one, 0: none.
 * 0 | fault. */
int publish_missing(crud_t *crud, const char *what, const publish_pass_t *passes, size_t n,
                    int *ret_count, int64_t *ret_revision);
