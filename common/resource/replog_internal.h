/* Between the files of the config log only: replog.c (the actor and its turns), replog_words.c
 * (messages from workers), replog_copies.c (notifications between copies, reports to the service),
 * replog_read.c (the log in PostgreSQL), replog_send.c (messages to workers). Rules without sockets
 * and database: subscriber.c (one worker), places.c (all workers of this copy), roster.c (those of
 * other copies). */
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
    int64_t forgotten; /* revision of the newest deletion that was removed from the log (tidy.h) */
    bool known;        /* the revision after which replog_read_news last read belongs to this log */
    int64_t covered;   /* reports of other copies are complete up to this revision */
    bool listening, stop, changed;
    bool more_notes; /* more notifications may be waiting */
    /* a read found another head: for a restored database, and for changes by a copy of an older
     * version, there is no valid notification */
    bool moved;
    notes_key_t notes;
    notes_sessions_t sessions;
    char channel[64], workers_channel[64];
    roster_t *roster;     /* workers of the other copies */
    char name[ID_MAX];    /* of this copy */
    int64_t said, say_ms; /* number of its last notification, and when the next is due */
    bool others_seen;
    places_t places;
    int64_t streams_ended; /* as reported by the workers of this copy */
    int64_t next_beat_ms, last_turn_ms, complain_ms;
    int64_t settle_ms; /* until then workers may be missing: reports say "settling" */
} replog_t;

/* ---- replog.c ---- */

/* Remove a worker: no reply waits for it any more. */
void replog_let_go(replog_t *self, place_t *place);

/* ---- replog_words.c ---- */

/* Receive one message from the ROUTER, where one is waiting. */
void replog_take_message(replog_t *self);
/* Ask all live workers to say hello. */
void replog_ask_everyone(replog_t *self);

/* ---- replog_copies.c ---- */

/* Notify the other copies which workers this copy hears, and their revisions. After 0 they will
 * know it before they hear of any change that is committed later, because notifications arrive in
 * the order of commits. 0 | as pg_exec. */
int replog_say_workers(replog_t *self);
/* Take a bounded number of notifications; sets more_notes. *ret_covered: the newest change that was
 * notified; 0: none. 0 | as pg_take_note. */
int replog_take_notes(replog_t *self, int64_t *ret_covered);
/* Forget other copies that have been silent for too long. */
void replog_forget_silent_copies(replog_t *self);
/* Report live workers and their revisions to the service (replog.h). */
void replog_tell_service(replog_t *self);

/* ---- replog_read.c ---- */

/* Read log id, head revision and forgotten. 0 | as pg_exec | fault. */
int replog_read_head(replog_t *self);

/* Read the head and the entries that changed after revision `after`, in one round trip. Columns:
 * kind, id, doc, bytes, log_id, revision, forgotten, known, between. At least one row, without an
 * entry if nothing changed. between, in the first row: the log's revisions between `after` and the
 * head, exclusive, separated by commas, NULL: none. Reads no more than fits into a delta. 0 | as
 * pg_exec | fault. */
int replog_read_news(replog_t *self, int64_t after, PGresult **ret_rows);

/* Are these rows, read by the last replog_read_news, all changes after `after`, and do they fit
 * into one delta? */
bool replog_is_delta(const replog_t *self, const PGresult *rows, int64_t after);

/* Read the next rows (kind, id, doc) of a snapshot, after that entry; no rows: it is complete. At
 * least one row, however large. 0 | as pg_exec. */
int replog_read_chunk(replog_t *self, const char *kind, const char *id, PGresult **ret_rows);

/* ---- replog_send.c ---- */

/* Send a message to a worker: identity, word, log id, previous revision, revision, body. 0 |
 * -EAGAIN: too much is queued for it | -EHOSTUNREACH: its connection has ended | -ENOMEM. */
int replog_send(replog_t *self, place_t *place, const char *word, int64_t previous,
                int64_t revision, const msgpack_sbuffer *body);

/* May a message with a body be sent to it now? */
bool replog_has_room(const place_t *place);

/* Send the rows of replog_read_news as a delta, or, if they do not fit, begin a snapshot, whose
 * chunks are sent later. Results as replog_send. */
int replog_send_news(replog_t *self, place_t *place, const PGresult *rows, int64_t after);

/* Send the next chunk of the worker's snapshot, or its end. After -EAGAIN the same chunk is next
 * again. Results as replog_send or pg_exec. */
int replog_send_chunk(replog_t *self, place_t *place);
