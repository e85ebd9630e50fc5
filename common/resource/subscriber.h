/* One edge worker at the config log: what it said last, what it was told, what comes next
 * (proto/WIRE.md). It is in one state.
 *
 *     state       hello      its answer             all sent   not reached         bye, silence
 *     AWAY        GREETED    -                      -          -                   -
 *     GREETED     GREETED    FOLLOWING | SNAPSHOT   -          LOST                AWAY
 *     FOLLOWING   GREETED    -                      -          LOST                AWAY
 *     SNAPSHOT    GREETED    -                      FOLLOWING  LOST                AWAY
 *     LOST        GREETED    -                      -          -                   AWAY
 *
 * From FOLLOWING to SNAPSHOT it comes when it is too far behind for a delta. No sockets and no
 * database in here, and the clock is told: now_ms is of the monotonic one. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum {
    SUBSCRIBER_DEAD_MS = 1000, /* silence after which answers do not wait for it */
    /* a worker says hello when it must, and again while it waits; answered not more often */
    SUBSCRIBER_GREET_MS = 100,
    /* begun for one worker before one ends: it may ask again while it waits for the first part */
    SUBSCRIBER_SNAPSHOTS_AT_ONCE = 8,
    SUBSCRIBER_SNAPSHOT_AGAIN_MS = 500 /* and from then on */
};

typedef enum subscriber_state {
    SUBSCRIBER_AWAY,    /* no answer waits for it */
    SUBSCRIBER_GREETED, /* it said hello, and was not answered: what it has is not known */
    /* it gets every change; it is behind where there was no room for the last */
    SUBSCRIBER_FOLLOWING,
    SUBSCRIBER_SNAPSHOT, /* it gets everything, in chunks */
    /* nothing goes to it before it says hello. It may serve what it has, so answers wait */
    SUBSCRIBER_LOST
} subscriber_state_t;

/* What a hello said. */
typedef struct greeting {
    char log_id[64], mark[24];
    int64_t has; /* the revision of that log that is in force there */
    bool parts;  /* it takes large bodies in parts */
} greeting_t;

typedef struct subscriber {
    subscriber_state_t state;
    greeting_t greeting; /* the last */
    int64_t tried_ms;    /* when the last hello had its turn */
    int64_t sent, acked; /* revisions of our log; 0: none that is known */
    int64_t heard_ms;
    /* The snapshot that runs: of which revision, and the last entry that was sent; kind ""
     * before the first. */
    int64_t snapshot_head;
    char snapshot_kind[64], snapshot_id[64];
    int snapshots_begun;      /* since one ended */
    int64_t snapshot_from_ms; /* when the last begins, or began */
} subscriber_t;

/* ---- what it is ---- */

/* Do answers wait for it? */
bool subscriber_is_live(const subscriber_t *self);
/* Can it be told of changes, if not at once? */
bool subscriber_is_reached(const subscriber_t *self);
/* May changes be sent to it? Not before its hello is answered. */
bool subscriber_takes_news(const subscriber_t *self);
/* May its hello be answered now? */
bool subscriber_hello_is_due(const subscriber_t *self, int64_t now_ms);
/* Is there something that it has not been sent? */
bool subscriber_is_behind(const subscriber_t *self, int64_t head);
/* The same, and may that go now? has_room: for a message with a body. */
bool subscriber_can_go_on(const subscriber_t *self, int64_t head, bool has_room, int64_t now_ms);
/* Is it live, and was it silent for too long? */
bool subscriber_is_silent(const subscriber_t *self, int64_t now_ms);

/* ---- what it says ---- */

/* Anything at all. */
void subscriber_hear(subscriber_t *self, int64_t now_ms);
/* The greeting is copied. Acknowledges nothing; what was under way to it counts no more. */
void subscriber_hello(subscriber_t *self, const greeting_t *greeting);
/* This revision of our log is in force there; of another log, 0. True: that is new. What it was
 * never sent it cannot have. */
bool subscriber_ack(subscriber_t *self, int64_t revision);

/* ---- what becomes of it ---- */

/* It said bye, was silent for too long, or speaks over another connection. */
void subscriber_leave(subscriber_t *self);
/* It cannot be sent to. True: it was reached until now; it has the time of a silent one from now
 * on to say hello. */
bool subscriber_lose(subscriber_t *self, int64_t now_ms);
/* This process stood still: nobody was silent. */
void subscriber_spare(subscriber_t *self, int64_t now_ms);

/* ---- what it is told ---- */

/* Its hello has its turn: the next one has none for SUBSCRIBER_GREET_MS. */
void subscriber_try(subscriber_t *self, int64_t now_ms);
/* Its hello is answered. True: with what is new after self->sent, which may be nothing | false:
 * with a snapshot, which begins. */
bool subscriber_answer(subscriber_t *self, const char *log_id, int64_t head, int64_t now_ms);
/* It was sent everything up to that revision. */
void subscriber_told(subscriber_t *self, int64_t revision);
/* Everything of revision head goes to it in chunks: from now on, or, where it never lets one
 * end, from a moment later. */
void subscriber_begin_snapshot(subscriber_t *self, int64_t head, int64_t now_ms);
/* A chunk was sent, whose last entry this is. */
void subscriber_chunk_sent(subscriber_t *self, const char *kind, const char *id);
/* The end was sent. */
void subscriber_end_snapshot(subscriber_t *self);
/* The database is another one than before and does not know the old head: what it has is not of
 * this log. It gets a snapshot, or, because it takes no lower revision before it has named its
 * own, nothing before it says hello. */
void subscriber_begin_again(subscriber_t *self, int64_t old_head, int64_t head, int64_t now_ms);
