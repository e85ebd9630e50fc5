/* The reader of the config log (proto/WIRE.md): a state machine for whoever follows it. A
 * worker's is asked about each message, the state file's about each message before it is
 * written, and the same worker's about each record that is read back. It says what to do with
 * the body and knows which revision of which log is in force: when everything up to it was
 * applied, and only then. No table, no files, no clock and no nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { FOLLOW_LOG_BYTES = 64 };

/* The numbers are those of records in the state file (record.h). */
typedef enum follow_kind {
    FOLLOW_OTHER = 0,      /* a message that says nothing of the log */
    FOLLOW_SNAPSHOT = 'S', /* everything, and this is the first part of it */
    FOLLOW_MORE = 'M',
    FOLLOW_SNAPSHOT_END = 'E',
    FOLLOW_DELTA = 'C', /* what changed since previous */
    FOLLOW_BEAT = 'B'   /* what the writer said last; never in a file */
} follow_kind_t;

/* Of a message's first frame. */
follow_kind_t follow_kind(const char *word);

typedef struct follow_message {
    int kind;           /* follow_kind_t; of a file it may be any byte */
    const char *log_id; /* less than FOLLOW_LOG_BYTES */
    int64_t previous, revision;
    const char *
        /* of a delta: the log's revisions between the two, with commas; NULL: it does not say */
        between;
    size_t between_len;
    bool kept; /* it is a record: who wrote it knew that it follows the one before it */
} follow_message_t;

typedef struct follow {
    char log_id[FOLLOW_LOG_BYTES]; /* of what is in force; "": nothing is */
    int64_t revision;              /* in force; 0: nothing */
    bool arriving;                 /* a snapshot, of this log and revision */
    char arriving_log_id[FOLLOW_LOG_BYTES];
    int64_t arriving_revision;
    bool wants_all; /* the next hello asks for everything, whatever is in force */
    int64_t before; /* the revision that was in force before the last message: for follow_failed */
} follow_t;         /* zeros: nothing is in force */

typedef enum follow_step {
    FOLLOW_NOTHING, /* it is not for here, or was told before */
    FOLLOW_ASK, /* something is missing: say hello; of records: what comes behind is of no use */
    FOLLOW_CURRENT, /* what is in force is what the writer has */
    FOLLOW_BEGIN,   /* apply it to a new table; what was arriving is void */
    FOLLOW_ADD,     /* apply it to that one */
    FOLLOW_END,     /* that one is in force, with the snapshot's log and revision */
    FOLLOW_CHANGE,  /* apply it to the one in force; what was arriving is void */
    FOLLOW_FAILED   /* who applies bodies says so of one that cannot be: see follow_failed */
} follow_step_t;

/* Take a message, and go where it leads: what the step says is to be done now, and where that
 * fails follow_failed() is to be called. */
follow_step_t follow_take(follow_t *self, const follow_message_t *message);

/* The body of the last message, this one, could not be applied, and nothing of it is in force:
 * the next hello asks for everything. Of a record nothing is asked: what is in force is what
 * could be read. */
void follow_failed(follow_t *self, const follow_message_t *message);

/* What is arriving is void: a hello goes out, and the writer starts over. */
void follow_drop(follow_t *self);

/* What a hello names: 0 asks for everything. */
int64_t follow_named(const follow_t *self);

/* What a delta means to who has this revision of this log: FOLLOW_CHANGE, FOLLOW_NOTHING or
 * FOLLOW_ASK. It holds the newest version of each entry that changed since previous, so it may
 * begin before what is there, if that is of the same history: a copy may have told of changes
 * that the database lost when a standby took over. */
follow_step_t follow_delta(const char *log_id, int64_t revision, const follow_message_t *message);
