#include "services/edge/control/edge_follow.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_seat.h"
#include "common/bus/heartbeat.h"

enum {
    SILENCE_MS = 750,      /* of the writer: then say hello again */
    /* twice as long after each that did not help: over a slow link it may still come */
    SILENCE_MAX_MS = HEARTBEAT_SILENCE_MS
};

typedef struct {
    ngx_msec_t   heard, hello_said;
    ngx_msec_t   part_heard;   /* of a message that comes in parts */
    ngx_msec_t   silence;      /* after which the next hello is said */
    int64_t      hello_mark;   /* of the last hello */
    /* what the writer says is of its present once it answered this one */
    int64_t      fresh_mark;
    ngx_uint_t   fresh;        /* and it has */
    /* what is in force is what the writer has, and that is of its present */
    ngx_uint_t   synced;
    /* a wait for it was in vain, and it was not heard since */
    ngx_uint_t   absent;
} conversation_t;

static conversation_t  conversations[EDGE_LOGS] = {
    { .silence = SILENCE_MS }, { .silence = SILENCE_MS }
};


void
edge_follow_listen(edge_log_t log)
{
    conversations[log].heard = ngx_current_msec;
}


/* ---- hellos ---- */

/* The writer starts over at a hello: with another snapshot, or with what is new since the
 * revision that it was told. A hello says what is in force, and acknowledges nothing of it. */
void
edge_follow_hello_again(edge_log_t log)
{
    char                   revision[24], name[160], mark[24];
    edge_conf_t           *conf = edge_conf();
    const edge_log_row_t  *row = edge_log(log);
    const follow_t        *at = row->at();

    row->drop();
    snprintf(revision, sizeof(revision), "%lld", (long long) follow_named(at));
    snprintf(name, sizeof(name), "%.*s/%u%s", (int) conf->name.len,
             conf->name.data, (unsigned) ngx_worker,
             edge_seat_suffix(edge_seat()));
    snprintf(mark, sizeof(mark), "%lld", (long long) conversations[log].hello_mark);
    conversations[log].hello_said = ngx_current_msec;
    edge_life_say(row->link,
                  (const char *[]) { "hello", *at->log_id ? at->log_id : "-",
                                     revision, name, mark, NULL });
    if (follow_named(at)) {
        edge_ack_repeat(log);
    }
}


void
edge_follow_hello(edge_log_t log)
{
    conversations[log].hello_mark++;
    edge_follow_hello_again(log);
}


ngx_uint_t
edge_follow_beat(edge_log_t log)
{
    conversation_t  *self = &conversations[log];

    if (ngx_current_msec - self->heard <= self->silence
        || ngx_current_msec - self->hello_said < self->silence)
    {
        return 0;
    }
    self->silence = ngx_min(2 * self->silence, SILENCE_MAX_MS);
    edge_follow_hello_again(log);
    return 1;
}


void
edge_follow_sign(edge_log_t log)
{
    const edge_log_row_t  *row = edge_log(log);
    const follow_t        *at = row->at();

    if (at->revision && !at->arriving) {
        edge_ack_release(log);
        edge_ack_repeat(log);
    } else {
        edge_life_say(row->link, (const char *[]) { "ack", "0", NULL });
    }
}


/* ---- what the log says ---- */

/* This worker has the revision that the writer named. That is the writer's present one only
 * where the message was sent after the last hello was heard: see fresh. */
static void
note_current(edge_log_t log, const follow_message_t *message)
{
    conversation_t  *self = &conversations[log];

    self->silence = SILENCE_MS;
    self->synced = self->fresh;
    edge_log(log)->current(message);
}


static void
note_failed(const edge_log_row_t *row)
{
    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "postern: a message of the %s cannot be read: "
                  "revision %L stays in force", row->name, row->at()->revision);
}


/* Frames: word, log id, previous revision, revision, body. */
static void
on_log(edge_log_t log, link_message_t *frames, const char *word)
{
    char              log_id[FOLLOW_LOG_BYTES];
    ngx_str_t         body = ngx_string("");
    follow_message_t  message = {
        .kind = follow_kind(word),
        .log_id = edge_life_text(frames, 1, log_id, sizeof(log_id)),
        .previous = edge_life_number(frames, 2),
        .revision = edge_life_number(frames, 3)
    };

    if (frames->n > 4) {
        body = frames->frames[4];
    }
    switch (edge_log(log)->take(&message, &body)) {
    case FOLLOW_ASK:
        edge_follow_hello(log);
        break;
    case FOLLOW_FAILED:
        note_failed(edge_log(log));
        break;
    case FOLLOW_CURRENT:
    case FOLLOW_CHANGE:
    case FOLLOW_END:
        note_current(log, &message);
        break;
    default:
        break;
    }
}


void
edge_follow_message(edge_log_t log, link_message_t *message)
{
    char             word[16];
    conversation_t  *self = &conversations[log];

    edge_life_text(message, 0, word, sizeof(word));
    self->heard = ngx_current_msec;
    self->absent = 0;
    if (ngx_strcmp(word, "refused") == 0) {
        edge_life_log_refused(edge_log(log)->name, message);

    } else if (ngx_strcmp(word, "who") == 0) {
        edge_follow_hello(log);

    } else if (ngx_strcmp(word, "heard") == 0) {
        self->fresh = self->fresh || edge_life_number(message, 3) >= self->fresh_mark;

    } else if (ngx_strcmp(word, "part") == 0) {
        self->part_heard = ngx_current_msec;

    } else {
        on_log(log, message, word);
    }
}


/* ---- waiting ---- */

void
edge_follow_doubt(edge_log_t log)
{
    conversations[log].fresh = 0;
    conversations[log].fresh_mark = conversations[log].hello_mark + 1;
}


void
edge_follow_trust(edge_log_t log)
{
    conversations[log].fresh = 1;
}


void
edge_follow_expect(edge_log_t log)
{
    conversations[log].synced = 0;
}


void
edge_follow_expected(edge_log_t log)
{
    conversations[log].absent = !conversations[log].synced;
}


ngx_uint_t
edge_follow_is_synced(edge_log_t log)
{
    return conversations[log].synced;
}


ngx_uint_t
edge_follow_is_absent(edge_log_t log)
{
    return conversations[log].absent;
}


ngx_uint_t
edge_follow_is_receiving(edge_log_t log, ngx_msec_t since_ms)
{
    return ngx_current_msec - conversations[log].part_heard <= since_ms;
}
