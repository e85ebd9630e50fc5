/* A worker's part of the config log and of the event intake (proto/WIRE.md has the frames). Its helper
 * process carries the messages; when that dies another one takes its place, and everything that was
 * on the way is said again. */
#include "services/edge/control/edge_bus.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_state.h"
#include "services/edge/events/edge_memory.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_vitals.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "services/edge/control/edge_link.h"
#include "services/edge/tls/edge_tickets.h"
#include "services/edge/control/follow.h"
#include "common/bus/heartbeat.h"
#include "common/codec/pack.h"

#include <malloc.h>
#include <poll.h>

enum {
    BEAT_MS = 250,
    SILENCE_MS = 750,      /* of the writer: then say hello again */
    SILENCE_MAX_MS = HEARTBEAT_SILENCE_MS, /* twice as long after each that did not help: over a slow link it may still come */
    SYNC_MS = 1000,        /* a starting worker waits this long for the config log */
    SYNC_ABSENT_MS = 500,  /* and for a word of one that did not answer the last time */
    RESOLVE_MS = 1000,     /* and this long for names */
    PAUSE_MS = 900,        /* without a sign of life; from 1 s on changes are answered without this worker */
    PAUSE_RESOLVE_MS = 250, /* after one, for names that came meanwhile */
    HELLO_AGAIN_MS = 100,  /* while nobody serves yet */
    SNAPSHOT_MS = 60000,   /* between two that the state file asks for */
    SNAPSHOT_FIRST_MS = 1000, /* while it is behind: twice as long after each that did not help */
    ACK_HOLD_MS = 1500,    /* a change with names to resolve is acknowledged after this anyway */
    BATCH_MS = 20,         /* larger batches wake fewer threads and commits an event */
    EVENT_HELLO_MS = 1000,
    EVENT_ACK_MS = 30000,  /* without progress: unacknowledged batches go again */
    EVENT_QUIET_MS = 10000, /* hellos to somebody who does not answer */
    WINDOW = 64,           /* batches on the way */
    HELPER_MS = 5000,      /* for a helper to start; without one, try again after the next */
    HELPER_AGAIN_MS = 400,  /* answers wait 1 s for a worker that cannot be told of changes */
    HELPER_ABSENT = 1,     /* beats without a word of the helper's: said so */
    HELPER_DEAD = 2,       /* and taken for dead: its successor says hello before the writer gives this worker up (1 s) */
    TURN_US = 1000,        /* of one event loop turn, for config messages */
    RETIRE_OBJECTS = 25,   /* of an old table freed in one turn; its pages may be the master's */
    MMAP_BYTES = 4 << 20,  /* allocations from here on have pages of their own */
    HOLDS_MAX = 64
};

static link_t        helper = LINK_CLOSED;
static pid_t         helper_pid;
static ngx_msec_t    helper_started;
static ngx_uint_t    unanswered;   /* beats since the helper was heard */
static ngx_event_t   beat_timer, batch_timer, retire_timer;
static ngx_connection_t timer_dummy;
static ngx_msec_t    config_heard, config_hello;
static ngx_msec_t    part_heard;     /* of a message of the config log that comes in parts */
static ngx_msec_t    silence = SILENCE_MS;   /* after which the next hello is said */
static ngx_msec_t    events_heard, events_hello, events_resent, events_moved;
static ngx_uint_t    resend_due;     /* asked for, and not done yet */
static ngx_msec_t    snapshot_asked;
static ngx_msec_t    snapshot_pause = SNAPSHOT_MS;
static ngx_uint_t    unkept;         /* what comes is not on disk */
static int64_t       kept_revision;  /* then: the last that is, of the log in force */
static ngx_uint_t    config_synced, snapshot_wanted;
static int64_t       hello_mark;     /* of the last hello */
static int64_t       fresh_mark;     /* what the writer says is of its present once it answered this one */
static ngx_uint_t    config_fresh;   /* and it has */
static ngx_uint_t    config_absent;  /* a wait for it was in vain, and it was not heard since */
static uint64_t      signed_ms;      /* the last sign of life, by the machine's clock */
static char          arriving_log_id[64];   /* of the snapshot in edge_worker.building */
static int64_t       arriving_revision;
static edge_wait_t  *arriving_names;
static ngx_uint_t    events_absent, events_inline;
static ngx_int_t     on_way;

/* Revisions in force that are not acknowledged yet, because names that came with them are being resolved. */
static struct {
    int64_t       revision;
    ngx_msec_t    deadline;
    edge_wait_t  *names;   /* NULL: it waits for the one before it */
} holds[HOLDS_MAX];
static ngx_uint_t    hold_count;
static int64_t       acked;


/* ---- sending ---- */

/* What does not go is said again: hellos and acknowledgements by the beat, batches because nobody
 * acknowledged them. */
static void
send_strings(link_kind_t kind, const char *a, const char *b, const char *c,
    const char *d, const char *e)
{
    const char  *texts[5] = { a, b, c, d, e };
    ngx_str_t    frames[5];
    ngx_uint_t   n;

    for (n = 0; n < 5 && texts[n]; n++) {
        frames[n].data = (u_char *) texts[n];
        frames[n].len = ngx_strlen(texts[n]);
    }
    (void) link_send(&helper, kind, frames, n, MSG_DONTWAIT);
}


/* The writer starts over at a hello: with another snapshot, or with what is new since the revision that it was told. */
static void
drop_snapshot(void)
{
    if (edge_worker.building) {
        edge_retire(edge_worker.building);
        edge_worker.building = NULL;
    }
    edge_resolve_wait_drop(arriving_names);
    arriving_names = NULL;
}


/* What would not survive a restart is in force, but not acknowledged. */
static void
acknowledge(int64_t revision)
{
    char  text[24];

    if (unkept && revision > kept_revision) {
        revision = kept_revision;
    }
    acked = revision;
    snprintf(text, sizeof(text), "%lld", (long long) revision);
    send_strings(LINK_CONFIG, "ack", text, edge_worker.log_id, NULL, NULL);
}


/* What is in force but has not all of its names waits further. */
static void
acknowledge_again(void)
{
    acknowledge(hold_count ? acked : edge_worker.revision);
}


/* A hello says what is in force, and acknowledges nothing of it: see acknowledge(). With the mark of the last one it voids
 * nothing of what was said behind the answer to that. */
static void
say_hello_again(void)
{
    char  revision[24], name[80], mark[24];

    drop_snapshot();
    snprintf(revision, sizeof(revision), "%lld",
             snapshot_wanted ? 0LL : (long long) edge_worker.revision);
    snprintf(name, sizeof(name), "%.*s/%u%s", (int) edge_worker.conf->name.len,
             edge_worker.conf->name.data, (unsigned) ngx_worker,
             edge_seat_suffix(edge_seat()));
    snprintf(mark, sizeof(mark), "%lld", (long long) hello_mark);
    config_hello = ngx_current_msec;
    send_strings(LINK_CONFIG, "hello",
                 *edge_worker.log_id ? edge_worker.log_id : "-", revision,
                 name, mark);
    if (edge_worker.revision && !snapshot_wanted) {
        acknowledge_again();
    }
}


/* What was said before it is answered does not count. */
static void
say_hello(void)
{
    hello_mark++;
    say_hello_again();
}


/* Acknowledge what has its names, or has waited long enough for them. */
static void
release_holds(void)
{
    ngx_uint_t  n = 0;

    while (n < hold_count
           && (edge_resolve_wait_pending(holds[n].names) == 0
               || (ngx_msec_int_t) (ngx_current_msec - holds[n].deadline) >= 0))
    {
        edge_resolve_wait_drop(holds[n].names);
        n++;
    }
    if (n) {
        acknowledge(holds[n - 1].revision);
        hold_count -= n;
        ngx_memmove(holds, holds + n, hold_count * sizeof(holds[0]));
    }
}


/* In their order: a later revision does not overtake one that waits. */
static void
hold(int64_t revision, ngx_msec_t deadline, edge_wait_t *names)
{
    if (hold_count == HOLDS_MAX) {
        edge_resolve_wait_drop(holds[--hold_count].names);   /* the last two go together */
    }
    holds[hold_count].revision = revision;
    holds[hold_count].names = names;
    holds[hold_count++].deadline = deadline;
}


static void
drop_holds(void)
{
    while (hold_count) {
        edge_resolve_wait_drop(holds[--hold_count].names);
    }
}


void
edge_bus_resolved(void)
{
    release_holds();
}


/* ---- receiving ---- */

/* Frame as a C string; "" when it is missing. */
static const char *
frame_text(link_message_t *message, ngx_uint_t i, char *out, size_t size)
{
    size_t  len = i < message->n ? message->frames[i].len : 0;

    if (len >= size) {
        len = size - 1;
    }
    if (len) {
        ngx_memcpy(out, message->frames[i].data, len);
    }
    out[len] = '\0';
    return out;
}


static int64_t
frame_number(link_message_t *message, ngx_uint_t i)
{
    char  text[32];

    return strtoll(frame_text(message, i, text, sizeof(text)), NULL, 10);
}


/* Frames: "refused", code, name. It goes on for as long as the name and the key do not belong together: said once a minute. */
static void
say_refused(const char *who, link_message_t *message)
{
    char            code[8], name[160];
    static time_t   said;

    if (ngx_time() - said < 60) {
        return;
    }
    said = ngx_time();
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "postern: the %s refuses this edge's key for the name "
                  "\"%s\" (%s): postern_edge_name is to be what the key is "
                  "called", who,
                  frame_text(message, 2, name, sizeof(name)),
                  frame_text(message, 1, code, sizeof(code)));
}


/* names: those that came with it, and are the caller's no more. */
static void
now_in_force(int64_t revision, edge_wait_t *names)
{
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    edge_worker.revision = revision;
    counters->revision = revision;
    counters->ready = 1;
    edge_vitals(ngx_worker)->entries_refused = table_refused(edge_worker.table);
    edge_streams_changed();
    if (edge_resolve_wait_pending(names)) {
        hold(revision, ngx_current_msec + ACK_HOLD_MS, names);
        return;
    }
    edge_resolve_wait_drop(names);
    if (hold_count) {
        hold(revision, holds[hold_count - 1].deadline, NULL);
    } else {
        acknowledge(revision);
    }
}


static void
begin_snapshot(const char *log_id, int64_t revision)
{
    drop_snapshot();
    edge_worker.building = edge_table_new();
    edge_worker.building->before = edge_worker.table;
    arriving_names = edge_resolve_wait_new();
    ngx_cpystrn((u_char *) arriving_log_id, (u_char *) log_id,
                sizeof(arriving_log_id));
    arriving_revision = revision;
    snapshot_wanted = 0;
}


/* What is in force here is what the writer has; or had, when it said so: see config_fresh. */
static void
note_current(void)
{
    silence = SILENCE_MS;
    config_synced = config_fresh;
    edge_vitals(ngx_worker)->config_current = ngx_time();
}


static void
end_snapshot(int64_t revision)
{
    edge_swap(edge_worker.building);
    edge_worker.building = NULL;
    ngx_memcpy(edge_worker.log_id, arriving_log_id, sizeof(arriving_log_id));
    note_current();
    drop_holds();   /* they were revisions of what it replaces, perhaps of another log */
    acked = kept_revision = 0;
    now_in_force(revision, arriving_names);
    arriving_names = NULL;
}


/* A body that is none: nothing of it can be told, so nothing is in force that would need it. Each beat asks again. */
static void
apply_failed(void)
{
    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "postern: a message of the config log cannot be read: "
                  "revision %L stays in force", edge_worker.revision);
    drop_snapshot();
    snapshot_wanted = 1;
}


static ngx_int_t
apply_to(table_t *table, edge_wait_t *names, const void *body, size_t len)
{
    ngx_int_t  rc;

    edge_resolve_wait_for(names);
    rc = edge_apply(table, body, len, ngx_cycle->log);
    edge_resolve_wait_for(NULL);
    if (rc != NGX_OK) {
        apply_failed();
    }
    return rc;
}


static void
change(int64_t revision, const void *body, size_t len)
{
    edge_wait_t  *names;

    drop_snapshot();   /* the answer to a hello that was said while it began */
    names = edge_resolve_wait_new();
    if (apply_to(edge_worker.table, names, body, len) != NGX_OK) {
        edge_resolve_wait_drop(names);
        return;
    }
    note_current();
    now_in_force(revision, names);
}


/* Frames: word, log id, previous revision, revision, body. */
static void
on_log(link_message_t *message, const char *word)
{
    char         log_id[64];
    size_t       len = message->n > 4 ? message->frames[4].len : 0;
    int64_t      previous = frame_number(message, 2);
    int64_t      revision = frame_number(message, 3);
    follow_t     at = { edge_worker.log_id, edge_worker.revision,
                        edge_worker.building != NULL, arriving_log_id,
                        arriving_revision };
    const void  *body = len ? (char *) message->frames[4].data : "";

    frame_text(message, 1, log_id, sizeof(log_id));
    switch (follow_message(&at, word, log_id, previous, revision)) {
    case FOLLOW_ASK:
        say_hello();
        break;
    case FOLLOW_CURRENT:
        note_current();
        edge_ring_counters(ngx_worker)->ready = 1;
        break;
    case FOLLOW_BEGIN:
        begin_snapshot(log_id, revision);
        /* fall through */
    case FOLLOW_ADD:
        (void) apply_to(edge_worker.building, arriving_names, body, len);
        break;
    case FOLLOW_END:
        end_snapshot(revision);
        break;
    case FOLLOW_CHANGE:
        change(revision, body, len);
        break;
    default:
        break;
    }
}


static void
on_config(link_message_t *message)
{
    char  word[16];

    frame_text(message, 0, word, sizeof(word));
    config_heard = ngx_current_msec;
    config_absent = 0;
    if (ngx_strcmp(word, "refused") == 0) {
        say_refused("config log", message);

    } else if (ngx_strcmp(word, "who") == 0) {
        say_hello();

    } else if (ngx_strcmp(word, "heard") == 0) {
        config_fresh = config_fresh || frame_number(message, 3) >= fresh_mark;

    } else if (ngx_strcmp(word, "part") == 0) {
        part_heard = ngx_current_msec;

    } else {
        on_log(message, word);
    }
}


static void
resend_events(void)
{
    resend_due = 0;
    events_resent = ngx_current_msec;
    on_way = 0;
    edge_ring_resend();
    edge_bus_send_events();
}


static void
on_events(link_message_t *message)
{
    char  word[16], producer[sizeof(((edge_batch_t *) 0)->producer)];

    frame_text(message, 0, word, sizeof(word));
    events_heard = ngx_current_msec;
    events_absent = 0;
    if (ngx_strcmp(word, "want") == 0) {
        edge_worker.events_wanted = frame_number(message, 1) != 0;

    } else if (ngx_strcmp(word, "refused") == 0) {
        say_refused("events service", message);

    } else if (ngx_strcmp(word, "resend") == 0) {
        /* One came too early, or found no room. Once for all that are on the way; but it may not be
         * said again, so on_beat does what is passed over here. */
        resend_due = 1;
        if (ngx_current_msec - events_resent > BEAT_MS) {
            resend_events();
        }

    } else if (ngx_strcmp(word, "inline") == 0 && !events_inline) {
        /* it cannot read our memory: another machine, or another user */
        events_inline = 1;
        on_way = 0;
        edge_ring_resend();
        edge_bus_send_events();

    } else if (ngx_strcmp(word, "ack") == 0) {
        events_moved = ngx_current_msec;
        edge_ring_acknowledge(frame_text(message, 2, producer, sizeof(producer)),
                              frame_number(message, 1));
        if (on_way > 0) {
            on_way--;
        }
        edge_bus_send_events();
    }
}


/* Nobody took a batch: all of them go again, from the oldest, once somebody is heard or at a beat. */
static void
on_nobody(void)
{
    events_absent = 1;
    on_way = 0;
    edge_ring_resend();
}


static void
set_kept(ngx_uint_t kept)
{
    edge_vitals_t  *vitals = edge_vitals(ngx_worker);

    if (!kept && !unkept) {
        kept_revision = edge_worker.revision;
        snapshot_pause = SNAPSHOT_FIRST_MS;
    } else if (kept) {
        snapshot_pause = SNAPSHOT_MS;
    }
    unkept = !kept;
    vitals->state_behind = unkept;
}


static void
on_message(link_message_t *message)
{
    switch (message->kind) {
    case LINK_CONFIG:
        on_config(message);
        break;
    case LINK_SNAPSHOT:
        snapshot_wanted = 1;   /* the next beat asks */
        break;
    case LINK_KEPT:
    case LINK_UNKEPT:
        set_kept(message->kind == LINK_KEPT);
        break;
    case LINK_EVENTS:
        on_events(message);
        break;
    case LINK_NOBODY:
        on_nobody();
        break;
    case LINK_TICKETS:
        if (message->n == 1) {
            edge_tickets_take(&message->frames[0]);
        }
        break;
    default:
        break;
    }
}


static uint64_t
microseconds(clockid_t clock)
{
    struct timespec  now;

    clock_gettime(clock, &now);
    return (uint64_t) now.tv_sec * 1000000 + now.tv_nsec / 1000;
}


static uint64_t
now_us(void)
{
    return microseconds(CLOCK_MONOTONIC);
}


/* Processor time, so that a busy machine does not look like a long turn. */
static uint64_t
turn_start(void)
{
    return microseconds(CLOCK_THREAD_CPUTIME_ID);
}


static void
note_turn(uint64_t start)
{
    uint64_t          took = turn_start() - start;
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    if (took > counters->config_turn_us) {
        counters->config_turn_us = took;
    }
}


static void
disconnect(void)
{
    link_close(&helper);
}


/* One that is gone, or is there and does not answer. */
static void
lose_helper(const char *why)
{
    edge_vitals_t  *vitals = edge_vitals(ngx_worker);

    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "postern: the helper process %P %s: another one is started",
                  helper_pid, why);
    vitals->helper_absent = 1;
    vitals->helper_restarts++;
    vitals->helper_restarted = ngx_time();
    disconnect();   /* see on_beat */
}


static void
helper_heard(void)
{
    unanswered = 0;
    edge_vitals(ngx_worker)->helper_absent = 0;
}


/* At each beat. Beats are counted, not time: a worker that was stopped itself has counted none meanwhile. */
static void
ping_helper(void)
{
    if (helper.fd < 0) {
        return;
    }
    if (++unanswered > HELPER_ABSENT) {
        edge_vitals(ngx_worker)->helper_absent = 1;
    }
    if (unanswered > HELPER_DEAD) {
        kill(helper_pid, SIGKILL);   /* it must not come back to the state file */
        lose_helper("does not answer");
        return;
    }
    (void) link_send(&helper, LINK_PING, NULL, 0, MSG_DONTWAIT);
}


/* Everything that waits, within the time of one turn; the rest in the next. */
static void
drain(void)
{
    uint64_t         start = now_us();
    ngx_int_t        rc;
    link_message_t   message;

    do {
        rc = link_receive(&helper, &message, MSG_DONTWAIT);
        if (rc == NGX_OK) {
            helper_heard();
            on_message(&message);
        }
    } while (rc == NGX_OK && now_us() - start <= TURN_US);
    if (rc == NGX_ERROR) {
        lose_helper("ended");
    }
}


static void
on_readable(ngx_event_t *ev)
{
    uint64_t  start = turn_start();

    (void) ev;
    drain();
    note_turn(start);
}


/* ---- events out ---- */

static ngx_int_t
send_batch(edge_batch_t *batch)
{
    char             seq[24];
    ngx_int_t        rc;
    ngx_str_t        frames[2];
    msgpack_packer   packer;
    msgpack_sbuffer  header;
    edge_place_t     place = batch->place;
    ngx_uint_t       shared = *edge_memory_name() && !events_inline
                              && !place.spooled;

#define STR(text) msgpack_pack_str(&packer, ngx_strlen(text)); \
    msgpack_pack_str_body(&packer, text, ngx_strlen(text))

    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, shared ? 11 : 6);
    STR("producer");
    STR(batch->producer);
    STR("family");
    STR("traffic");
    snprintf(seq, sizeof(seq), "%llu", (unsigned long long) batch->seq);
    STR("seq");
    STR(seq);
    STR("count");
    msgpack_pack_uint32(&packer, batch->count);
    STR("dropped");
    msgpack_pack_uint64(&packer, batch->dropped);
    STR("oldest");
    batch->oldest ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer);
    if (shared) {
        STR("memory");
        STR(edge_memory_name());
        STR("body");
        msgpack_pack_int64(&packer, batch->shared.body);
        STR("len");
        msgpack_pack_uint32(&packer, place.len);
        STR("tail");
        msgpack_pack_int64(&packer, batch->shared.tail);
        STR("at");
        msgpack_pack_uint64(&packer, place.at);
        place.len = 0;
    }
#undef STR
    frames[0].data = (u_char *) header.data;
    frames[0].len = header.size;
    frames[1].data = (u_char *) &place;
    frames[1].len = sizeof(place);
    rc = link_send(&helper, LINK_BATCH, frames, 2, MSG_DONTWAIT);
    msgpack_sbuffer_destroy(&header);
    return rc;
}


void
edge_bus_send_events(void)
{
    edge_batch_t  batch;

    if (!edge_worker.running) {
        return;
    }
    while (!events_absent && on_way < WINDOW && edge_ring_next(&batch)) {
        if (send_batch(&batch) != NGX_OK) {
            on_nobody();
            break;
        }
        if (on_way++ == 0) {
            events_moved = ngx_current_msec;
        }
    }
    if (edge_ring_unsent() && !batch_timer.timer_set) {
        ngx_add_timer(&batch_timer, BATCH_MS);
    }
}


static void
on_batch_timer(ngx_event_t *ev)
{
    (void) ev;
    edge_ring_seal();
    edge_bus_send_events();
}


/* ---- the helper ---- */

static ngx_int_t
start_helper(ngx_log_t *log)
{
    int  link, names;

    helper_started = ngx_current_msec;
    unanswered = 0;
    helper_pid = edge_helper_start(&link, &names);
    if (helper_pid < 0) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "postern: cannot start the helper process");
        return NGX_ERROR;
    }
    if (edge_resolve_connect(names, log) != NGX_OK) {
        close(link);
        return NGX_ERROR;
    }
    return link_watch(&helper, link, on_readable, log);
}


/* Nobody knows what the last helper did not say. */
static void
greet(void)
{
    say_hello();
    on_nobody();
    events_absent = 0;
    events_hello = ngx_current_msec;
    send_strings(LINK_EVENTS, "hello", NULL, NULL, NULL, NULL);
}


/* In the place of one that is gone. */
static void
revive_helper(void)
{
    if (helper.fd < 0 && ngx_current_msec - helper_started > HELPER_AGAIN_MS
        && start_helper(ngx_cycle->log) == NGX_OK)
    {
        greet();
    }
}


/* ---- signs of life ---- */

/* By a clock that goes on while the machine sleeps. */
static uint64_t
clock_ms(void)
{
    return microseconds(CLOCK_BOOTTIME) / 1000;
}


/* The time before it is sent: the writer counts from when it comes. */
static void
give_sign(void)
{
    signed_ms = clock_ms();
    if (edge_worker.revision && !edge_worker.building) {
        edge_resolve_release_spent();
        release_holds();
        acknowledge_again();
    } else {
        send_strings(LINK_CONFIG, "ack", "0", NULL, NULL, NULL);
    }
}


/* Where the last wait was in vain, the next is shorter, until there is any word: see on_config. */
static ngx_msec_t
patience(void)
{
    return config_absent ? SYNC_ABSENT_MS : SYNC_MS;
}


/* No request is answered meanwhile, so it is over after SYNC_MS without a part of what is in force. The helper and the writer
 * are kept up as by beats. NGX_OK: the config log has said what is in force | NGX_DECLINED: it did not answer. */
static ngx_int_t
wait_for_config(void)
{
    ngx_msec_t     start, beat, said = 0;
    struct pollfd  pfd = { -1, POLLIN, 0 };

    ngx_time_update();
    start = beat = ngx_current_msec;
    config_synced = 0;
    while (!config_synced && ngx_current_msec - start < patience()) {
        revive_helper();
        if (!edge_worker.building && said == 0) {
            said = ngx_current_msec;
            say_hello();
        } else if (!edge_worker.building
                   && ngx_current_msec - said > HELLO_AGAIN_MS
                   && ngx_current_msec - part_heard > SILENCE_MS)
        {
            said = ngx_current_msec;
            say_hello_again();
        }
        if (ngx_current_msec - beat >= BEAT_MS) {
            beat = ngx_current_msec;
            ping_helper();
            give_sign();
        }
        pfd.fd = helper.fd;
        if (poll(&pfd, 1, 20) > 0) {
            drain();
            if (edge_worker.building) {
                start = ngx_current_msec;   /* it goes on: wait for its end */
            }
        }
        ngx_time_update();
    }
    signed_ms = clock_ms();
    config_absent = !config_synced;
    return config_synced ? NGX_OK : NGX_DECLINED;
}


/* The writer gives up who is silent for 1 s, and answers changes without it. A worker that stood still for so long (a signal, a
 * machine that was paused, swap) cannot tell, so before it answers the next request it asks. What lies in its helper's link was
 * said before: only what comes behind the answer to this hello counts. Without an answer it serves what it has. The next time it
 * asks again, with less patience: the config log may have come back while it stood still, and nothing told it so. */
void
edge_bus_check_pause(void)
{
    uint64_t  now = clock_ms(), pause = now - signed_ms;

    if (pause <= PAUSE_MS || !edge_worker.running) {
        return;
    }
    signed_ms = now;
    config_fresh = 0;
    fresh_mark = hello_mark + 1;
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "postern: this worker stood still for %uL ms: it asks the "
                  "config log what is in force", pause);
    if (wait_for_config() != NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the config log does not answer: serving "
                      "revision %L", edge_worker.revision);
    }
    config_fresh = 1;
    if (hold_count) {
        edge_resolve_wait(PAUSE_RESOLVE_MS);
    }
}


/* ---- timers ---- */

static void
on_beat(ngx_event_t *ev)
{
    edge_bus_check_pause();
    ping_helper();
    revive_helper();
    if (ngx_current_msec - config_heard > silence
        && ngx_current_msec - config_hello >= silence)
    {
        silence = ngx_min(2 * silence, SILENCE_MAX_MS);
        say_hello_again();
    } else if (snapshot_wanted && edge_worker.revision && !edge_worker.building
               && ngx_current_msec - snapshot_asked > snapshot_pause)
    {
        snapshot_asked = ngx_current_msec;
        if (unkept) {
            snapshot_pause = ngx_min(2 * snapshot_pause, SNAPSHOT_MS);
        }
        say_hello();
    }
    give_sign();

    if (ngx_current_msec - events_hello
        >= (events_heard >= events_hello ? EVENT_HELLO_MS : EVENT_QUIET_MS))
    {
        events_hello = ngx_current_msec;
        send_strings(LINK_EVENTS, "hello", NULL, NULL, NULL, NULL);
    }
    if (on_way && ngx_current_msec - events_moved > EVENT_ACK_MS) {
        events_moved = ngx_current_msec;
        on_way = 0;
        edge_ring_resend();
    }
    events_absent = 0;
    if (resend_due) {
        resend_events();
    } else {
        edge_bus_send_events();
    }
    ngx_add_timer(ev, BEAT_MS);
}


static void
on_retire(ngx_event_t *ev)
{
    table_t     *next;
    uint64_t     start = turn_start();

    if (edge_worker.retired) {
        next = edge_worker.retired->next;
        if (table_free_some(&edge_worker.retired, RETIRE_OBJECTS)) {
            edge_worker.retired = next;
        }
    }
    note_turn(start);
    ngx_add_timer(ev, edge_worker.retired ? 5 : 100);
}


static void
start_timer(ngx_event_t *ev, void (*handler)(ngx_event_t *), ngx_log_t *log,
    ngx_msec_t after)
{
    ev->handler = handler;
    ev->log = log;
    ev->data = &timer_dummy;
    ev->cancelable = 1;   /* a graceful exit does not wait for it */
    if (after) {
        ngx_add_timer(ev, after);
    }
}


/* ---- lifecycle ---- */

/* Before the first request: the config log's news, when somebody is there to tell it. A worker that
 * took another's place must not serve what changed meanwhile. */
static void
wait_for_sync(void)
{
    config_fresh = 1;   /* nothing was said to this worker before */
    if (wait_for_config() != NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the config log does not answer: serving "
                      "revision %L from disk", edge_worker.revision);
    }
    edge_resolve_wait(RESOLVE_MS);
    edge_ring_counters(ngx_worker)->revision = edge_worker.revision;
    edge_ring_counters(ngx_worker)->ready = config_synced
                                            || edge_worker.revision > 0;
}


/* A helper that cannot make its sockets has said why. What it says behind its first word waits for
 * edge_bus_start: a hello before the state is read would name a revision that this worker does not stay at. */
static ngx_int_t
wait_for_helper(void)
{
    ngx_int_t        rc = NGX_AGAIN;
    ngx_msec_t       start;
    link_message_t   message;
    struct pollfd    pfd = { helper.fd, POLLIN, 0 };

    ngx_time_update();
    start = ngx_current_msec;
    while (rc == NGX_AGAIN && ngx_current_msec - start < HELPER_MS) {
        if (poll(&pfd, 1, 100) > 0) {
            rc = link_receive(&helper, &message, MSG_DONTWAIT);
        }
        ngx_time_update();
    }
    return rc == NGX_OK && message.kind == LINK_READY ? NGX_OK : NGX_ERROR;
}


/* What comes and goes stays ours: no trimming of the heap, and no pages of their own for messages of the config log. */
static void
tame_allocator(void)
{
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}


/* The helper first: it keeps the pages that it was made with. */
ngx_int_t
edge_bus_open(ngx_cycle_t *cycle)
{
    tame_allocator();
    timer_dummy.fd = (ngx_socket_t) -1;
    return start_helper(cycle->log) == NGX_OK ? wait_for_helper() : NGX_ERROR;
}


void
edge_bus_start(ngx_cycle_t *cycle)
{
    edge_worker.running = 1;
    edge_worker.events_wanted = 1;   /* until told otherwise */
    snapshot_wanted = ngx_worker == 0 && edge_state_is_cut();
    edge_resolve_start(cycle);
    start_timer(&batch_timer, on_batch_timer, cycle->log, 0);
    wait_for_sync();
    config_heard = events_heard = ngx_current_msec;
    send_strings(LINK_EVENTS, "hello", NULL, NULL, NULL, NULL);
    events_hello = ngx_current_msec;
    start_timer(&beat_timer, on_beat, cycle->log, BEAT_MS);
    start_timer(&retire_timer, on_retire, cycle->log, 100);
}


/* The helper ends once it sent what it was given, or after the linger. */
static void
wait_for_end(void)
{
    ngx_int_t        rc = NGX_AGAIN;
    ngx_uint_t       waited;
    link_message_t   message;
    struct pollfd    pfd = { helper.fd, POLLIN, 0 };

    if (helper.fd < 0 || shutdown(helper.fd, SHUT_WR) != 0) {
        return;
    }
    for (waited = 0; rc != NGX_ERROR && waited < 2 * EDGE_LINGER_MS;
         waited += 10)
    {
        if (poll(&pfd, 1, 10) > 0) {
            do {
                rc = link_receive(&helper, &message, MSG_DONTWAIT);
            } while (rc == NGX_OK);
        }
    }
}


void
edge_bus_stop(void)
{
    edge_batch_t  batch;

    if (!edge_worker.running) {
        return;
    }
    edge_ring_seal();
    while (edge_ring_next(&batch) && send_batch(&batch) == NGX_OK) { /* void */ }
    edge_worker.running = 0;
    send_strings(LINK_CONFIG, "bye", NULL, NULL, NULL, NULL);   /* nothing is served any more: no change waits for this worker */
    wait_for_end();
    disconnect();
    edge_ring_close();   /* what was sent is in the helper's hands no more */
}
