/* Between the files of the config log only: replog.c (the actor: subscribers, other copies), replog_send.c (what is sent). */
#pragma once

#include "common/base/id.h"
#include "common/store/notes.h"
#include "common/codec/pack.h"
#include "common/store/pg.h"
#include "common/resource/replog.h"
#include "common/resource/roster.h"
#include "common/bus/transit.h"
#include "common/schema/role.h"

enum {
    SUBSCRIBERS_MAX = 1024, /* at one copy; services count as many of all copies */
    IDENTITY_MAX = 64
};

/* What a hello said, until it is answered. */
typedef struct greeting {
    bool waits;
    char log_id[64], mark[24];
    int64_t has;
    bool parts; /* it takes large bodies in parts */
} greeting_t;

typedef struct subscriber {
    unsigned char identity[IDENTITY_MAX];
    size_t identity_len;
    transit_t *way; /* what was sent over this connection and not taken yet */
    char peer[96];  /* whose key the connection showed: another peer cannot take it over */
    char name[ROLE_OWN_NAME_MAX + 1];
    greeting_t greeting;
    int64_t greeted_ms;  /* when the last was answered */
    int64_t sent, acked; /* revisions */
    int64_t heard_ms;
    char snapshot_kind[64], snapshot_id[64]; /* where a running snapshot has got to */
    bool in_snapshot;
    int64_t snapshot_head;
    int snapshots_begun;      /* since one ended */
    int64_t snapshot_from_ms; /* when the last begins, or began */
    bool live;                /* answers wait for it */
    bool gone;                /* and nothing goes to it before it says hello: see lose() */
} subscriber_t;

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
    bool
        moved; /* the head was seen at another place: no notification that counts tells of a database from a backup, nor of what
                   a copy of an older version changed */
    notes_key_t notes;
    notes_sessions_t sessions;
    roster_t *roster;     /* what the other copies hear */
    char name[ID_MAX];    /* of this copy */
    int64_t said, say_ms; /* how often it said what it hears itself, and when it does again */
    bool others_seen;
    subscriber_t subscribers[SUBSCRIBERS_MAX];
    int count, first; /* with whom a turn begins, so that nobody is always last */
    int64_t turned_away_ms,
        turned_away_said_ms; /* somebody found no place, and serves what it has */
    int64_t next_beat_ms, last_turn_ms, complain_ms;
    int64_t settle_ms; /* until then we may not know every edge: no answer leaves on our word */
} replog_t;

/* Frames to a subscriber: identity, word, log id, previous revision, revision, body. 0 | -EAGAIN: too much is on its way to it |
 * -EHOSTUNREACH: its connection has ended | -ENOMEM. */
int replog_send(replog_t *self, subscriber_t *sub, const char *word, int64_t previous,
                int64_t revision, const msgpack_sbuffer *body);

/* May a message with a body be sent to it now? */
bool replog_has_room(const subscriber_t *sub);

/* Log id, revision and what is forgotten, as the database has them now. */
int replog_read_head(replog_t *self);

/* The head and what is new after `after` up to it, in one round trip. At least one row, without an entry when nothing is new. */
int replog_read_news(replog_t *self, int64_t after, PGresult **ret_rows);

/* What is new since it was last told, rows of replog_read_news: as a delta, or, where that would be too much for one message,
 * everything in chunks. */
int replog_send_news(replog_t *self, subscriber_t *sub, const PGresult *rows, int64_t after);

/* From now on, or, for a worker that never lets one end, from a moment later. */
void replog_begin_snapshot(replog_t *self, subscriber_t *sub);

/* The next chunk, or the end. What cannot be sent now is the next again. */
int replog_send_chunk(replog_t *self, subscriber_t *sub);
