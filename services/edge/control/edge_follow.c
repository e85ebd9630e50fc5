#include "services/edge/control/edge_follow.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_vitals.h"
#include "services/edge/worker/edge_worker.h"
#include "common/bus/heartbeat.h"

enum {
    SILENCE_MS = 750,      /* of the writer: then say hello again */
    /* twice as long after each that did not help: over a slow link it may still come */
    SILENCE_MAX_MS = HEARTBEAT_SILENCE_MS,
    SNAPSHOT_MS = 60000,   /* between two that the state file asks for */
    SNAPSHOT_FIRST_MS = 1000   /* while it is behind: twice as long after each that did not help */
};

static ngx_msec_t    heard, hello_said;
static ngx_msec_t    part_heard;             /* of a message that comes in parts */
static ngx_msec_t    silence = SILENCE_MS;   /* after which the next hello is said */
static int64_t       hello_mark;             /* of the last hello */
/* what the writer says is of its present once it answered this one */
static int64_t       fresh_mark;
static ngx_uint_t    fresh;                  /* and it has */
/* what is in force is what the writer has, and that is of its present */
static ngx_uint_t    synced;
/* a wait for it was in vain, and it was not heard since */
static ngx_uint_t    absent;
static ngx_msec_t    snapshot_asked;
static ngx_msec_t    snapshot_pause = SNAPSHOT_MS;
static edge_wait_t  *arriving_names;         /* that came with a snapshot */


void
edge_follow_start(ngx_uint_t wants_all)
{
    if (wants_all) {
        edge_worker_want_all();
    }
}


void
edge_follow_listen(void)
{
    heard = ngx_current_msec;
}


/* ---- hellos ---- */

static void
drop_arriving_names(void)
{
    edge_resolve_wait_drop(arriving_names);
    arriving_names = NULL;
}


/* The writer starts over at a hello: with another snapshot, or with what is new since the
 * revision that it was told. A hello says what is in force, and acknowledges nothing of it. */
void
edge_follow_hello_again(void)
{
    char             revision[24], name[160], mark[24];
    edge_conf_t     *conf = edge_conf();
    const follow_t  *at = edge_worker_at();

    edge_worker_drop_arriving(0);
    drop_arriving_names();
    snprintf(revision, sizeof(revision), "%lld", (long long) follow_named(at));
    snprintf(name, sizeof(name), "%.*s/%u%s", (int) conf->name.len,
             conf->name.data, (unsigned) ngx_worker,
             edge_seat_suffix(edge_seat()));
    snprintf(mark, sizeof(mark), "%lld", (long long) hello_mark);
    hello_said = ngx_current_msec;
    edge_life_say(LINK_CONFIG,
                  (const char *[]) { "hello", *at->log_id ? at->log_id : "-",
                                     revision, name, mark, NULL });
    if (follow_named(at)) {
        edge_ack_repeat();
    }
}


void
edge_follow_hello(void)
{
    hello_mark++;
    edge_follow_hello_again();
}


void
edge_follow_beat(void)
{
    const follow_t  *at = edge_worker_at();

    if (ngx_current_msec - heard > silence
        && ngx_current_msec - hello_said >= silence)
    {
        silence = ngx_min(2 * silence, SILENCE_MAX_MS);
        edge_follow_hello_again();
    } else if (at->wants_all && at->revision && !at->arriving
               && ngx_current_msec - snapshot_asked > snapshot_pause)
    {
        snapshot_asked = ngx_current_msec;
        if (!edge_ack_is_kept()) {
            snapshot_pause = ngx_min(2 * snapshot_pause, SNAPSHOT_MS);
        }
        edge_follow_hello();
    }
}


void
edge_follow_want_all(void)
{
    edge_worker_want_all();   /* the next beat asks */
}


void
edge_follow_set_kept(ngx_uint_t kept)
{
    if (kept) {
        snapshot_pause = SNAPSHOT_MS;
    } else if (edge_ack_is_kept()) {
        snapshot_pause = SNAPSHOT_FIRST_MS;
    }
    edge_ack_set_kept(kept);
}


/* ---- what the log says ---- */

/* This worker has the revision that the writer named. That is the writer's present one only
 * where the message was sent after the last hello was heard: see fresh. */
static void
note_current(void)
{
    silence = SILENCE_MS;
    synced = fresh;
    edge_vitals(ngx_worker)->config_current = ngx_time();
}


/* names: those that came with it, and are the caller's no more. */
static void
note_in_force(edge_wait_t *names)
{
    int64_t           revision = edge_worker_at()->revision;
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    note_current();
    counters->revision = revision;
    counters->ready = 1;
    edge_vitals(ngx_worker)->entries_refused = table_refused(edge_worker_table());
    edge_ack_take(revision, names);
}


static void
note_failed(void)
{
    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "postern: a message of the config log cannot be read: "
                  "revision %L stays in force", edge_worker_at()->revision);
}


/* Names that come with the message: those of a snapshot are waited for together, at its end. */
static follow_step_t
take_message(const follow_message_t *message, const ngx_str_t *body, edge_wait_t *names)
{
    follow_step_t  step;

    edge_resolve_wait_for(names);
    step = edge_worker_take(message, body->data, body->len, ngx_cycle->log);
    edge_resolve_wait_for(NULL);
    return step;
}


static void
finish_message(follow_step_t step, edge_wait_t *names)
{
    switch (step) {
    case FOLLOW_ASK:
        edge_follow_hello();
        break;
    case FOLLOW_FAILED:
        note_failed();
        break;
    case FOLLOW_CURRENT:
        note_current();
        edge_ring_counters(ngx_worker)->ready = 1;
        break;
    case FOLLOW_CHANGE:
        note_in_force(names);
        return;
    case FOLLOW_END:
        edge_ack_reset();
        note_in_force(arriving_names);
        arriving_names = NULL;
        break;
    default:
        break;
    }
    edge_resolve_wait_drop(names);
}


/* Frames: word, log id, previous revision, revision, body. */
static void
on_log(link_message_t *frames, const char *word)
{
    char              log_id[FOLLOW_LOG_BYTES];
    ngx_str_t         body = ngx_string("");
    edge_wait_t      *names = NULL;
    follow_step_t     step;
    follow_message_t  message = {
        .kind = follow_kind(word),
        .log_id = edge_life_text(frames, 1, log_id, sizeof(log_id)),
        .previous = edge_life_number(frames, 2),
        .revision = edge_life_number(frames, 3)
    };

    if (frames->n > 4) {
        body = frames->frames[4];
    }
    if (message.kind == FOLLOW_SNAPSHOT) {
        drop_arriving_names();
        arriving_names = edge_resolve_wait_new();
    } else if (message.kind == FOLLOW_DELTA) {
        names = edge_resolve_wait_new();
    }
    step = take_message(&message, &body, names ? names : arriving_names);
    finish_message(step, names);
    if (!edge_worker_at()->arriving) {
        drop_arriving_names();
    }
}


void
edge_follow_message(link_message_t *message)
{
    char  word[16];

    edge_life_text(message, 0, word, sizeof(word));
    heard = ngx_current_msec;
    absent = 0;
    if (ngx_strcmp(word, "refused") == 0) {
        edge_life_log_refused("config log", message);

    } else if (ngx_strcmp(word, "who") == 0) {
        edge_follow_hello();

    } else if (ngx_strcmp(word, "heard") == 0) {
        fresh = fresh || edge_life_number(message, 3) >= fresh_mark;

    } else if (ngx_strcmp(word, "part") == 0) {
        part_heard = ngx_current_msec;

    } else {
        on_log(message, word);
    }
}


/* ---- waiting ---- */

void
edge_follow_doubt(void)
{
    fresh = 0;
    fresh_mark = hello_mark + 1;
}


void
edge_follow_trust(void)
{
    fresh = 1;
}


void
edge_follow_expect(void)
{
    synced = 0;
}


void
edge_follow_expected(void)
{
    absent = !synced;
}


ngx_uint_t
edge_follow_is_synced(void)
{
    return synced;
}


ngx_uint_t
edge_follow_is_absent(void)
{
    return absent;
}


ngx_uint_t
edge_follow_is_receiving(ngx_msec_t since_ms)
{
    return ngx_current_msec - part_heard <= since_ms;
}
