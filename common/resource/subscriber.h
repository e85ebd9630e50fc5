/* The config log's view of one edge worker: its last hello, what it was sent and has acknowledged,
 * and what to send next (proto/WIRE.md). A state machine; columns are events:
 *
 *     state       hello      hello answered         all sent   sending fails       bye, silence
 *     AWAY        GREETED    -                      -          -                   -
 *     GREETED     GREETED    FOLLOWING | SNAPSHOT   -          LOST                AWAY
 *     FOLLOWING   GREETED    -                      -          LOST                AWAY
 *     SNAPSHOT    GREETED    -                      FOLLOWING  LOST                AWAY
 *     LOST        GREETED    -                      -          -                   AWAY
 *
 * FOLLOWING becomes SNAPSHOT when the worker is too far behind for a delta. No sockets, no 
 * database and no clock in here: now_ms is monotonic. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    SUBSCRIBER_DEAD_MS = 1000, /* silence after which replies to changes do not wait for it */
    /* least time between two answers to hellos, which a worker repeats while it waits */
    SUBSCRIBER_GREET_MS = 100,
    /* snapshots begun at once without one being completed: a worker may repeat its hello while it
     * waits for the first part; further ones begin at intervals */
    SUBSCRIBER_SNAPSHOTS_AT_ONCE = 8,
    SUBSCRIBER_SNAPSHOT_AGAIN_MS = 500
};

typedef enum subscriber_state {
    SUBSCRIBER_AWAY,    /* replies do not wait for it */
    SUBSCRIBER_GREETED, /* its hello is not answered yet: its revision is unknown */
    /* it is sent every change; it may be behind, if there was no room for the last ones */
    SUBSCRIBER_FOLLOWING,
    SUBSCRIBER_SNAPSHOT, /* it is being sent all entries, in chunks */
    /* sent nothing before its next hello; it may go on serving, so replies wait for it */
    SUBSCRIBER_LOST
} subscriber_state_t;

/* The contents of a hello. */
typedef struct greeting {
    char log_id[64], mark[24];
    int64_t has; /* the revision of that log that the worker has in force */
    bool parts;  /* it accepts large bodies in parts */
} greeting_t;

typedef struct subscriber {
    subscriber_state_t state;
    greeting_t greeting; /* the newest hello */
    int64_t tried_ms;    /* when it was last tried to answer a hello */
    int64_t sent, acked; /* revisions of our log; 0: unknown */
    int64_t heard_ms;
    /* The running snapshot: its revision, and the last entry that was sent; kind "" before the
     * first. */
    int64_t snapshot_head;
    char snapshot_kind[64], snapshot_id[64];
    int snapshots_begun;      /* since one was completed */
    int64_t snapshot_from_ms; /* when the newest one begins, or began */
} subscriber_t;

/* ---- questions ---- */

/* Do replies to changes wait for it? */
bool subscriber_is_live(const subscriber_t *self);
/* Is its connection usable, so that changes reach it sooner or later? */
bool subscriber_is_reached(const subscriber_t *self);
/* May changes be sent to it? Not before its hello is answered. */
bool subscriber_takes_news(const subscriber_t *self);
/* May its hello be answered now? */
bool subscriber_hello_is_due(const subscriber_t *self, int64_t now_ms);
/* Has it not been sent everything up to head? */
bool subscriber_is_behind(const subscriber_t *self, int64_t head);
/* Is it behind, and may the next piece be sent now? has_room: for a message with a body. */
bool subscriber_can_go_on(const subscriber_t *self, int64_t head, bool has_room, int64_t now_ms);
/* Is it live, and has it been silent for more than SUBSCRIBER_DEAD_MS? */
bool subscriber_is_silent(const subscriber_t *self, int64_t now_ms);

/* ---- messages from the worker ---- */

/* A message of any kind. */
void subscriber_hear(subscriber_t *self, int64_t now_ms);
/* A hello, which is copied. It acknowledges nothing, and a running snapshot is given up. */
void subscriber_hello(subscriber_t *self, const greeting_t *greeting);
/* An acknowledgement of this revision of our log; 0: of another log. True: it is new. A revision
 * that the worker was never sent is ignored. */
bool subscriber_ack(subscriber_t *self, int64_t revision);

/* ---- its connection ---- */

/* It said bye, was silent for too long, or has another connection now. */
void subscriber_leave(subscriber_t *self);
/* Sending failed. True: it could be reached until now; it has SUBSCRIBER_DEAD_MS from now to say
 * hello. */
bool subscriber_lose(subscriber_t *self, int64_t now_ms);
/* This process was stopped for a while: do not count that time as the worker's silence. */
void subscriber_spare(subscriber_t *self, int64_t now_ms);

/* ---- messages to the worker ---- */

/* An attempt to answer its hello begins: no other one for SUBSCRIBER_GREET_MS. */
void subscriber_try(subscriber_t *self, int64_t now_ms);
/* Decide the answer to its hello. True: send the changes after self->sent, perhaps none | false: a
 * snapshot begins. */
bool subscriber_answer(subscriber_t *self, const char *log_id, int64_t head, int64_t now_ms);
/* It was sent everything up to that revision. */
void subscriber_told(subscriber_t *self, int64_t revision);
/* Begin a snapshot of revision head: now, or a moment later if too many were begun and none
 * completed. */
void subscriber_begin_snapshot(subscriber_t *self, int64_t head, int64_t now_ms);
/* A chunk was sent; its last entry is kind and id. */
void subscriber_chunk_sent(subscriber_t *self, const char *kind, const char *id);
/* The end of the snapshot was sent. */
void subscriber_end_snapshot(subscriber_t *self);
/* The database was replaced by one without the old head: the worker's revision is not of this log.
 * It is sent a snapshot; or nothing before its next hello, if the new head is lower, because a
 * worker accepts lower revisions only after a hello. */
void subscriber_begin_again(subscriber_t *self, int64_t old_head, int64_t head, int64_t now_ms);
