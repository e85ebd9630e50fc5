/* What a message of the config log means to who follows it: to a worker, and to who reads back what was kept of it. A revision is in
 * force when everything up to it was applied, and only then. No table, no files and no nginx in here. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

/* Where a follower stands. */
typedef struct follow {
    const char *log_id; /* of what is in force; "": nothing is */
    int64_t revision;
    bool building;        /* a snapshot is arriving */
    const char *arriving; /* of which log */
    int64_t arriving_revision;
} follow_t;

typedef enum follow_step {
    FOLLOW_NOTHING, /* it is not for here, or was told before */
    FOLLOW_ASK,     /* something is missing: say hello, and drop what is arriving */
    FOLLOW_CURRENT, /* what is in force is what the writer has */
    FOLLOW_BEGIN,   /* apply it to a new table; what was arriving is void */
    FOLLOW_ADD,     /* apply it to that one */
    FOLLOW_END,     /* that one is in force, with the snapshot's log and revision */
    FOLLOW_CHANGE   /* apply it to the one in force; what was arriving is void */
} follow_step_t;

/* Of a message: "snapshot", "more", "end", "delta" or "beat". */
follow_step_t follow_message(const follow_t *self, const char *word, const char *log_id,
                             int64_t previous, int64_t revision);

/* Of a record that was kept. FOLLOW_ASK: what comes behind it is of no use. A delta that began further back is whole all the same:
 * it has the newest of each entry. */
typedef enum follow_kept {
    FOLLOW_SNAPSHOT = 'S',
    FOLLOW_MORE = 'M',
    FOLLOW_SNAPSHOT_END = 'E',
    FOLLOW_DELTA = 'C'
} follow_kept_t;
follow_step_t follow_record(const follow_t *self, int type, const char *log_id, int64_t previous,
                            int64_t revision);
