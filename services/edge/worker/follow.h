/* The reader's side of the config log (proto/WIRE.md), as a state machine. A worker has one for the
 * messages that it receives and the records that it reads back from the state file; the writer of
 * the state file has one for the messages that it writes. It decides what to do with a message's
 * body, and knows the log id and revision in force: that up to which everything was applied. No
 * table, no files, no clock and no nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOLLOW_LOG_BYTES = 64 };

/* The numbers are those of records in the state file (record.h). */
typedef enum follow_kind {
    FOLLOW_OTHER = 0,          /* not a message of the config log */
    FOLLOW_SNAPSHOT = 'S',     /* first part of a snapshot of all entries */
    FOLLOW_MORE = 'M',         /* further part */
    FOLLOW_SNAPSHOT_END = 'E', /* the snapshot is complete */
    FOLLOW_DELTA = 'C',        /* entries that changed since revision previous */
    FOLLOW_BEAT = 'B'          /* heartbeat with the newest revision; never in a file */
} follow_kind_t;

/* The kind that a message's first frame names. */
follow_kind_t follow_kind(const char *word);

typedef struct follow_message {
    int kind;           /* follow_kind_t; read from a file it may be any byte */
    const char *log_id; /* less than FOLLOW_LOG_BYTES */
    int64_t previous, revision;
    const char *
        /* of a delta: revisions between previous and revision, comma-separated; NULL: unknown */
        between;
    size_t between_len;
    bool kept; /* read from the state file: its writer has checked the order */
} follow_message_t;

typedef struct follow {
    char log_id[FOLLOW_LOG_BYTES]; /* in force; "": nothing is */
    int64_t revision;              /* in force; 0: nothing is */
    bool arriving;                 /* a snapshot arrives, of this log and revision: */
    char arriving_log_id[FOLLOW_LOG_BYTES];
    int64_t arriving_revision;
    bool wants_all; /* the next hello asks for a snapshot, whatever is in force */
    int64_t before; /* the revision that was in force before the last message: for follow_failed */
} follow_t;         /* zeros: nothing is in force */

typedef enum follow_step {
    FOLLOW_NOTHING, /* ignore the message: known already, or not of the config log */
    FOLLOW_ASK,     /* messages are missing: send a hello; in a file: stop reading */
    FOLLOW_CURRENT, /* the revision in force is the writer's newest */
    FOLLOW_BEGIN,   /* apply the body to a new table; discard an arriving snapshot */
    FOLLOW_ADD,     /* apply the body to the table of the arriving snapshot */
    FOLLOW_END,     /* put that table in force, with the snapshot's log id and revision */
    FOLLOW_CHANGE,  /* apply the body to the table in force; discard an arriving snapshot */
    FOLLOW_FAILED   /* never decided here: the caller's result for a body that cannot be applied */
} follow_step_t;

/* Take a message and change the state as if the returned step had succeeded: the caller performs
 * the step, and calls follow_failed() if it fails. */
follow_step_t follow_take(follow_t *self, const follow_message_t *message);

/* The body of this message, the last that was taken, could not be applied: restore the revision
 * before it. The next hello asks for a snapshot, unless the message is a record of the state
 * file. */
void follow_failed(follow_t *self, const follow_message_t *message);

/* Discard an arriving snapshot: after the caller's next hello the writer starts over. */
void follow_drop(follow_t *self);

/* The revision for a hello; 0 asks for a snapshot. */
int64_t follow_named(const follow_t *self);

/* What a reader that has this revision of this log does with a delta: FOLLOW_CHANGE, FOLLOW_NOTHING
 * or FOLLOW_ASK. A delta holds the newest version of each entry that changed since previous, so
 * previous may be older than revision, if between lists revision. Otherwise histories may differ:
 * the reader may have changes that the database lost in a failover to a standby. */
follow_step_t follow_delta(const char *log_id, int64_t revision, const follow_message_t *message);
