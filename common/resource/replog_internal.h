/* Between the files of the config log only: replog.c (the actor: whose turn it is),
 * replog_words.c (what workers say), replog_copies.c (what copies tell each other, and the
 * service), replog_read.c (the log in PostgreSQL), replog_send.c (what goes to a worker). Rules
 * without sockets and database: subscriber.c (one worker), places.c (all of them), roster.c
 * (those of other copies). */
#pragma once

#include "common/base/id.h"
#include "common/store/notes.h"
#include "common/codec/pack.h"
#include "common/store/pg.h"
#include "common/resource/replog.h"
#include "common/resource/places.h"
#include "common/resource/roster.h"

typedef struct replog {
    zsock_t *pipe, *router;
    pg_t *pg;
    const replog_args_t *args;
    char log_id[64];
    int64_t head;
    int64_t forgotten; /* the last deletion that is not there any more, when the head was read */
    bool known;        /* was the revision behind which news were read last one of this log? */
    int64_t covered; /* up to this revision it is known which workers other copies have told less */
    bool listening, stop, changed;
    bool more_notes; /* there may be some that were not taken yet */
    /* the head was seen at another place: no notification that counts tells of a database from a
     * backup, nor of what a copy of an older version changed */
    bool moved;
    notes_key_t notes;
    notes_sessions_t sessions;
    roster_t *roster;     /* what the other copies hear */
    char name[ID_MAX];    /* of this copy */
    int64_t said, say_ms; /* how often it said what it hears itself, and when it does again */
    bool others_seen;
    places_t places;
    int64_t next_beat_ms, last_turn_ms, complain_ms;
    int64_t settle_ms; /* until then we may not know every edge: no answer leaves on our word */
} replog_t;

/* ---- replog.c ---- */

/* No answer waits for that worker any more. */
void replog_let_go(replog_t *self, place_t *place);

/* ---- replog_words.c ---- */

/* Take one message from the ROUTER, which has one. */
void replog_take_message(replog_t *self);
/* Ask all live workers to say hello. */
void replog_ask_everyone(replog_t *self);

/* ---- replog_copies.c ---- */

/* Notify which workers this copy hears and what they acknowledged. When this returns 0 the other
 * copies will know it before they hear of any change that is committed later: notifications come
 * in the order of the commits. Else what pg_exec says. */
int replog_say_workers(replog_t *self);
/* Some of the notifications that came; more_notes: there may be others. *ret_covered: the last
 * change of which this or an earlier one notified; 0: none. 0 | what pg_take_note says. */
int replog_take_notes(replog_t *self, int64_t *ret_covered);
/* Other copies that say nothing do not count. */
void replog_forget_silent_copies(replog_t *self);
/* Who is there and what they have. */
void replog_tell_service(replog_t *self);

/* ---- replog_read.c ---- */

/* Log id, revision and what is forgotten, as the database has them now. 0 | what pg_exec says |
 * fault. */
int replog_read_head(replog_t *self);

/* The head and what is new after `after` up to it, in one round trip, with columns bytes,
 * log_id, revision, forgotten, known and between behind kind, id and doc. At least one row,
 * without an entry when nothing is new. between, in the first: the revisions of this log from
 * `after` to the head, without either, with commas between, NULL: none. More than a delta takes
 * is not read. 0 | what pg_exec says | fault. */
int replog_read_news(replog_t *self, int64_t after, PGresult **ret_rows);

/* Are these rows, which replog_read_news read last, all that is new after `after`, and may they
 * go as one message? */
bool replog_is_delta(const replog_t *self, const PGresult *rows, int64_t after);

/* The next rows of a snapshot behind that entry: kind, id, doc; none: it has ended. At least
 * one, however large it is. 0 | what pg_exec says. */
int replog_read_chunk(replog_t *self, const char *kind, const char *id, PGresult **ret_rows);

/* ---- replog_send.c ---- */

/* Frames to a worker: identity, word, log id, previous revision, revision, body. 0 | -EAGAIN:
 * too much is on its way to it | -EHOSTUNREACH: its connection has ended | -ENOMEM. */
int replog_send(replog_t *self, place_t *place, const char *word, int64_t previous,
                int64_t revision, const msgpack_sbuffer *body);

/* May a message with a body be sent to it now? */
bool replog_has_room(const place_t *place);

/* What is new since it was last told, rows of replog_read_news: as a delta, or, where that would
 * be too much for one message, everything in chunks, which begin later. As replog_send. */
int replog_send_news(replog_t *self, place_t *place, const PGresult *rows, int64_t after);

/* The next chunk, or the end. What cannot be sent now is the next again. As replog_send, or what
 * pg_exec says. */
int replog_send_chunk(replog_t *self, place_t *place);
