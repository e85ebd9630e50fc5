/* The one file that speaks ZeroMQ: the config log subscription and the event producer, both DEALERs
 * driven by nginx's event loop (proto/WIRE.md has the frames).
 *
 * ZMQ_FD is edge-triggered and every send or receive may consume its signal, so after each of them
 * the read event is posted again: without that, wake-ups are lost as soon as both directions are in
 * use. Sockets are made after the fork, in init_process. */
#include "edge.h"
#include "common/pack.h"

#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <zmq.h>

enum {
    BEAT_MS = 250,
    SILENCE_MS = 750,      /* of the writer: then say hello again */
    SYNC_MS = 1000,        /* a starting worker waits this long for the config log */
    RESOLVE_MS = 1000,     /* and this long for names */
    ACK_HOLD_MS = 1500,    /* a change with names to resolve is acknowledged after this anyway */
    BATCH_MS = 20,         /* larger batches wake fewer threads and commits an event */
    EVENT_HELLO_MS = 1000,
    EVENT_ACK_MS = 30000,  /* without progress: unacknowledged batches go again */
    EVENT_QUIET_MS = 10000, /* hellos to somebody who does not answer */
    WINDOW = 64,           /* batches on the way */
    LINGER_MS = 300,
    TURN_US = 1000,        /* of one event loop turn, for config messages */
    RETIRE_OBJECTS = 25,   /* of an old table freed in one turn; its pages may be the master's */
    MMAP_BYTES = 4 << 20,  /* allocations from here on have pages of their own */
    SORT_BYTES = 64 << 10, /* an allocation larger than what a table frees */
    HOLDS_MAX = 64,
    HWM = 10000
};

typedef struct {
    void              *socket;
    ngx_connection_t  *connection;
    ngx_event_t        timer;
} bus_socket_t;

static void         *contexts[2];      /* of config, of events */
static bus_socket_t  config, events;
static ngx_event_t   batch_timer, retire_timer;
static ngx_connection_t timer_dummy;
static ngx_msec_t    config_heard, config_hello;
static ngx_msec_t    events_heard, events_hello, events_resent, events_moved;
static ngx_uint_t    config_synced, in_snapshot;
static ngx_int_t     on_way;

/* Revisions in force that are not acknowledged yet, because names that came with them are being resolved. */
static struct {
    int64_t     revision;
    ngx_msec_t  deadline;
} holds[HOLDS_MAX];
static ngx_uint_t    hold_count;
static int64_t       acked;


/* ---- sending ---- */

static ngx_int_t
send_frames(bus_socket_t *bus, const char *const *frames, const size_t *lens,
    ngx_uint_t n)
{
    ngx_uint_t  i;

    for (i = 0; i < n; i++) {
        if (zmq_send(bus->socket, frames[i], lens[i],
                     ZMQ_DONTWAIT | (i + 1 < n ? ZMQ_SNDMORE : 0)) < 0)
        {
            return NGX_AGAIN;
        }
    }
    if (bus->connection) {
        ngx_post_event(bus->connection->read, &ngx_posted_events);
    }
    return NGX_OK;
}


static ngx_int_t
send_strings(bus_socket_t *bus, const char *a, const char *b, const char *c,
    const char *d)
{
    const char  *frames[4] = { a, b, c, d };
    size_t       lens[4];
    ngx_uint_t   n;

    for (n = 0; n < 4 && frames[n]; n++) {
        lens[n] = ngx_strlen(frames[n]);
    }
    return send_frames(bus, frames, lens, n);
}


static void
say_hello(void)
{
    char  revision[24], name[80];

    snprintf(revision, sizeof(revision), "%lld",
             edge_state_wants_snapshot() ? 0LL
                                         : (long long) edge_worker.revision);
    snprintf(name, sizeof(name), "%.*s/%u", (int) edge_worker.conf->name.len,
             edge_worker.conf->name.data, (unsigned) ngx_worker);
    config_hello = ngx_current_msec;
    send_strings(&config, "hello",
                 *edge_worker.log_id ? edge_worker.log_id : "-", revision,
                 name);
}


static void
acknowledge(int64_t revision)
{
    char  text[24];

    acked = revision;
    snprintf(text, sizeof(text), "%lld", (long long) revision);
    send_strings(&config, "ack", text, NULL, NULL);
}


/* Acknowledge what has its names, or has waited long enough for them. */
static void
release_holds(void)
{
    ngx_uint_t  n = 0;

    while (n < hold_count
           && (edge_resolve_pending() == 0
               || (ngx_msec_int_t) (ngx_current_msec - holds[n].deadline) >= 0))
    {
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
hold(int64_t revision, ngx_msec_t deadline)
{
    if (hold_count == HOLDS_MAX) {
        hold_count--;   /* the last two go together */
    }
    holds[hold_count].revision = revision;
    holds[hold_count++].deadline = deadline;
}


void
edge_bus_resolved(void)
{
    release_holds();
}


/* ---- receiving ---- */

enum { FRAMES_MAX = 8 };

typedef struct {
    zmq_msg_t   frames[FRAMES_MAX];
    ngx_uint_t  n;
} message_t;


static ngx_int_t
receive(void *socket, message_t *message)
{
    int     more = 1;
    size_t  size = sizeof(more);

    for (message->n = 0; more; /* void */) {
        zmq_msg_t  *frame = &message->frames[message->n];

        zmq_msg_init(frame);
        if (zmq_msg_recv(frame, socket, ZMQ_DONTWAIT) < 0) {
            zmq_msg_close(frame);
            return NGX_AGAIN;
        }
        zmq_getsockopt(socket, ZMQ_RCVMORE, &more, &size);
        if (message->n + 1 < FRAMES_MAX) {
            message->n++;
        } else {
            zmq_msg_close(frame);
        }
    }
    return NGX_OK;
}


static void
message_close(message_t *message)
{
    while (message->n > 0) {
        zmq_msg_close(&message->frames[--message->n]);
    }
}


/* Frame as a C string; "" when it is missing. */
static const char *
frame_text(message_t *message, ngx_uint_t i, char *out, size_t size)
{
    size_t  len = i < message->n ? zmq_msg_size(&message->frames[i]) : 0;

    if (len >= size) {
        len = size - 1;
    }
    if (len) {
        ngx_memcpy(out, zmq_msg_data(&message->frames[i]), len);
    }
    out[len] = '\0';
    return out;
}


static int64_t
frame_number(message_t *message, ngx_uint_t i)
{
    char  text[32];

    return strtoll(frame_text(message, i, text, sizeof(text)), NULL, 10);
}


static void
now_in_force(int64_t revision, ngx_uint_t has_names)
{
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    edge_worker.revision = revision;
    counters->revision = revision;
    counters->ready = 1;
    if (has_names) {
        hold(revision, ngx_current_msec + ACK_HOLD_MS);
    } else if (hold_count) {
        hold(revision, holds[hold_count - 1].deadline);
    } else {
        acknowledge(revision);
    }
}


static void
begin_snapshot(message_t *message)
{
    if (edge_worker.building) {
        edge_retire(edge_worker.building);   /* never finished */
    }
    edge_worker.building = table_new();
    edge_worker.building->free_parsed = edge_tls_free_parsed;
    edge_worker.building->backend_added = edge_resolve_add;
    frame_text(message, 1, edge_worker.log_id, sizeof(edge_worker.log_id));
    hold_count = 0;
    acked = 0;
    in_snapshot = 1;
}


/* Frames: word, log id, previous revision, revision, body. */
static void
on_config(message_t *message)
{
    char         word[16], log_id[64];
    int64_t      previous, revision;
    size_t       len;
    ngx_uint_t   names;
    const void  *body;

    frame_text(message, 0, word, sizeof(word));
    frame_text(message, 1, log_id, sizeof(log_id));
    previous = frame_number(message, 2);
    revision = frame_number(message, 3);
    body = message->n > 4 ? zmq_msg_data(&message->frames[4]) : "";
    len = message->n > 4 ? zmq_msg_size(&message->frames[4]) : 0;
    config_heard = ngx_current_msec;

    if (ngx_strcmp(word, "who") == 0) {
        say_hello();

    } else if (ngx_strcmp(word, "beat") == 0) {
        if (!in_snapshot && revision != edge_worker.revision) {
            say_hello();   /* something was lost */
        } else {
            config_synced = 1;
            edge_ring_counters(ngx_worker)->ready = 1;
        }

    } else if (ngx_strcmp(word, "snapshot") == 0) {
        begin_snapshot(message);
        edge_state_write(STATE_SNAPSHOT, revision, body, len);
        edge_apply(edge_worker.building, body, len, ngx_cycle->log);

    } else if (ngx_strcmp(word, "more") == 0 && in_snapshot) {
        edge_state_write(STATE_MORE, revision, body, len);
        edge_apply(edge_worker.building, body, len, ngx_cycle->log);

    } else if (ngx_strcmp(word, "end") == 0 && in_snapshot) {
        in_snapshot = 0;
        edge_state_write(STATE_END, revision, NULL, 0);
        edge_swap(edge_worker.building);
        edge_worker.building = NULL;
        config_synced = 1;
        now_in_force(revision, edge_resolve_pending() > 0);

    } else if (ngx_strcmp(word, "delta") == 0) {
        if (in_snapshot || previous != edge_worker.revision
            || ngx_strcmp(log_id, edge_worker.log_id) != 0)
        {
            say_hello();
            return;
        }
        /* on disk before it is acknowledged: a restart must not step back */
        edge_worker.revision = revision;
        edge_state_write(STATE_DELTA, revision, body, len);
        names = edge_resolve_pending();
        edge_apply(edge_worker.table, body, len, ngx_cycle->log);
        config_synced = 1;
        now_in_force(revision, edge_resolve_pending() > names);
    }
}


static void
on_events(message_t *message)
{
    char  word[16], producer[sizeof(((edge_batch_t *) 0)->producer)];

    frame_text(message, 0, word, sizeof(word));
    events_heard = ngx_current_msec;
    if (ngx_strcmp(word, "want") == 0) {
        edge_worker.events_wanted = frame_number(message, 1) != 0;

    } else if (ngx_strcmp(word, "resend") == 0) {
        /* one came too early; once for all that are on the way */
        if (ngx_current_msec - events_resent > BEAT_MS) {
            events_resent = ngx_current_msec;
            on_way = 0;
            edge_ring_resend();
            edge_bus_send_events();
        }

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


/* Everything that waits, within the time of one turn; the rest in the next. */
static void
drain(bus_socket_t *bus, void (*handle)(message_t *))
{
    int        flags = 0;
    size_t     size = sizeof(flags);
    uint64_t   start = now_us();
    message_t  message;

    while (zmq_getsockopt(bus->socket, ZMQ_EVENTS, &flags, &size) == 0
           && flags & ZMQ_POLLIN)
    {
        if (receive(bus->socket, &message) != NGX_OK) {
            message_close(&message);
            break;
        }
        handle(&message);
        message_close(&message);
        if (now_us() - start > TURN_US) {
            if (bus->connection) {
                ngx_post_event(bus->connection->read, &ngx_posted_next_events);
            }
            break;
        }
    }
}


static void
on_config_readable(ngx_event_t *ev)
{
    uint64_t  start = turn_start();

    (void) ev;
    drain(&config, on_config);
    note_turn(start);
}


static void
on_events_readable(ngx_event_t *ev)
{
    (void) ev;
    drain(&events, on_events);
}


/* ---- events out ---- */

static ngx_int_t
send_batch(edge_batch_t *batch)
{
    char             seq[24];
    const char      *frames[3];
    size_t           lens[3];
    ngx_int_t        rc;
    msgpack_packer   packer;
    msgpack_sbuffer  header;

#define STR(text) msgpack_pack_str(&packer, ngx_strlen(text)); \
    msgpack_pack_str_body(&packer, text, ngx_strlen(text))

    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 6);
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
#undef STR
    frames[0] = "batch";
    lens[0] = 5;
    frames[1] = header.data;
    lens[1] = header.size;
    frames[2] = (const char *) batch->data;
    lens[2] = batch->len;
    rc = send_frames(&events, frames, lens, 3);
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
    while (on_way < WINDOW && edge_ring_next(&batch)) {
        if (send_batch(&batch) != NGX_OK) {
            edge_ring_resend();   /* nobody there: from the oldest, later */
            on_way = 0;
            return;
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


/* ---- timers ---- */

static void
on_beat(ngx_event_t *ev)
{
    if (ngx_current_msec - config_heard > SILENCE_MS
        && ngx_current_msec - config_hello >= SILENCE_MS)
    {
        in_snapshot = 0;
        say_hello();
    } else if (edge_worker.revision && !in_snapshot) {
        if (edge_state_wants_snapshot()
            && ngx_current_msec - config_hello > 60000)
        {
            say_hello();
        }
        release_holds();
        acknowledge(hold_count ? acked : edge_worker.revision);   /* a sign of life */
    } else {
        send_strings(&config, "ack", "0", NULL, NULL);
    }

    if (ngx_current_msec - events_hello
        >= (events_heard >= events_hello ? EVENT_HELLO_MS : EVENT_QUIET_MS))
    {
        events_hello = ngx_current_msec;
        send_strings(&events, "hello", NULL, NULL, NULL);
    }
    if (on_way && ngx_current_msec - events_moved > EVENT_ACK_MS) {
        events_moved = ngx_current_msec;
        on_way = 0;
        edge_ring_resend();
    }
    edge_bus_send_events();
    drain(&config, on_config);
    drain(&events, on_events);
    ngx_add_timer(ev, BEAT_MS);
}


static void
on_retire(ngx_event_t *ev)
{
    table_t     *next;
    uint64_t     start = turn_start();
    ngx_uint_t   more;
    void *volatile  sort;   /* or the compiler leaves both out */

    if (edge_worker.retired) {
        next = edge_worker.retired->next;
        if (table_free_some(&edge_worker.retired, RETIRE_OBJECTS)) {
            edge_worker.retired = next;
        }
        /* glibc sorts what was freed when somebody next allocates: now, while it is little */
        sort = malloc(SORT_BYTES);
        free(sort);
    }
    more = edge_state_retire();
    note_turn(start);
    ngx_add_timer(ev, edge_worker.retired || more ? 5 : 100);
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

/* CURVE: key files as zcert writes them, lines of  public-key = "..." */
static ngx_int_t
read_key(const char *dir, const char *file, const char *name, char out[41])
{
    char    path[NGX_MAX_PATH], line[256], *quote;
    FILE   *in;

    snprintf(path, sizeof(path), "%s/%s", dir, file);
    in = fopen(path, "re");
    out[0] = '\0';
    while (in && fgets(line, sizeof(line), in)) {
        quote = strchr(line, '"');
        if (strstr(line, name) && quote && strlen(quote) > 41) {
            ngx_cpystrn((u_char *) out, (u_char *) quote + 1, 41);
        }
    }
    if (in) {
        fclose(in);
    }
    if (out[0] == '\0') {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: no %s in CURVE key file \"%s\"", name, path);
        return NGX_ERROR;
    }
    return NGX_OK;
}


static ngx_int_t
set_keys(void *socket, const char *peer)
{
    char  dir[NGX_MAX_PATH], file[128], secret[41], public[41], server[41];

    ngx_snprintf((u_char *) dir, sizeof(dir), "%V%Z",
                 &edge_worker.conf->curve_dir);
    if (dir[0] == '\0') {
        ngx_log_error(NGX_LOG_EMERG, ngx_cycle->log, 0,
                      "postern: a tcp:// endpoint needs postern_curve_dir");
        return NGX_ERROR;
    }
    snprintf(file, sizeof(file), "peers/%s.cert", peer);
    if (read_key(dir, "self.cert_secret", "secret-key", secret) != NGX_OK
        || read_key(dir, "self.cert_secret", "public-key", public) != NGX_OK
        || read_key(dir, file, "public-key", server) != NGX_OK)
    {
        return NGX_ERROR;
    }
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public, 41);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret, 41);
    ngx_explicit_memzero(secret, sizeof(secret));
    return NGX_OK;
}


static ngx_int_t
open_socket(bus_socket_t *bus, void *context, ngx_str_t *endpoint,
    const char *peer, ngx_event_handler_pt handler, ngx_log_t *log)
{
    int       one = 1, linger = LINGER_MS, hwm = HWM, ivl = 50, fd;
    char      address[512];
    size_t    size = sizeof(fd);
    int64_t   max = PACK_BYTES_MAX;

    bus->socket = zmq_socket(context, ZMQ_DEALER);
    if (bus->socket == NULL) {
        return NGX_ERROR;
    }
    /* only to peers that are there; a restarted peer says "who" to what it does not know */
    zmq_setsockopt(bus->socket, ZMQ_IMMEDIATE, &one, sizeof(one));
    zmq_setsockopt(bus->socket, ZMQ_PROBE_ROUTER, &one, sizeof(one));
    zmq_setsockopt(bus->socket, ZMQ_LINGER, &linger, sizeof(linger));
    zmq_setsockopt(bus->socket, ZMQ_SNDHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(bus->socket, ZMQ_RCVHWM, &hwm, sizeof(hwm));
    zmq_setsockopt(bus->socket, ZMQ_RECONNECT_IVL, &ivl, sizeof(ivl));
    zmq_setsockopt(bus->socket, ZMQ_MAXMSGSIZE, &max, sizeof(max));
    ngx_snprintf((u_char *) address, sizeof(address), "%V%Z", endpoint);
    if (ngx_strncmp(address, "tcp://", 6) == 0
        && set_keys(bus->socket, peer) != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (zmq_connect(bus->socket, address)) {
        ngx_log_error(NGX_LOG_EMERG, log, 0, "postern: cannot connect to %s: %s",
                      address, zmq_strerror(zmq_errno()));
        return NGX_ERROR;
    }
    zmq_getsockopt(bus->socket, ZMQ_FD, &fd, &size);
    bus->connection = ngx_get_connection(fd, log);
    if (bus->connection == NULL) {
        return NGX_ERROR;
    }
    bus->connection->read->handler = handler;
    bus->connection->read->log = log;
    return ngx_add_event(bus->connection->read, NGX_READ_EVENT,
                         NGX_LEVEL_EVENT);
}


/* Before the first request: the config log's news, when somebody is there to tell it. A worker that
 * took another's place must not serve what changed meanwhile. */
static void
wait_for_sync(void)
{
    int              flags;
    size_t           size = sizeof(flags);
    ngx_msec_t       start, last = 0;
    zmq_pollitem_t   item = { config.socket, 0, ZMQ_POLLIN, 0 };

    ngx_time_update();
    start = ngx_current_msec;
    config_synced = 0;
    while (!config_synced && ngx_current_msec - start < SYNC_MS) {
        if (last == 0 || ngx_current_msec - last > 100) {
            last = ngx_current_msec;
            if (!in_snapshot) {
                say_hello();
            }
        }
        zmq_poll(&item, 1, 20);
        if (zmq_getsockopt(config.socket, ZMQ_EVENTS, &flags, &size) == 0
            && flags & ZMQ_POLLIN)
        {
            drain(&config, on_config);
            if (in_snapshot) {
                start = ngx_current_msec;   /* it goes on: wait for its end */
            }
        }
        ngx_time_update();
    }
    if (!config_synced) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the config log does not answer: serving "
                      "revision %L from disk", edge_worker.revision);
    }
    edge_resolve_wait(RESOLVE_MS);
    edge_ring_counters(ngx_worker)->ready = config_synced
                                            || edge_worker.revision > 0;
}


/* Requests go before events: a context's I/O thread starts with its first socket and inherits the
 * policy, under which its wake-ups do not preempt a worker. */
static ngx_int_t
open_events(ngx_cycle_t *cycle)
{
    ngx_int_t           rc;
    struct sched_param  none = { 0 };

    sched_setscheduler(0, SCHED_BATCH, &none);
    rc = open_socket(&events, contexts[1], &edge_worker.conf->events, "events",
                     on_events_readable, cycle->log);
    sched_setscheduler(0, SCHED_OTHER, &none);
    return rc;
}


/* Freeing many small objects must not be paid for in one piece later: no fast bins, which a large
 * allocation would walk through, and no trimming of the heap, whose memory the next snapshot takes. */
static void
tame_allocator(void)
{
    mallopt(M_MXFAST, 0);
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}


ngx_int_t
edge_bus_start(ngx_cycle_t *cycle)
{
    edge_conf_t  *conf = edge_worker.conf;

    tame_allocator();

    timer_dummy.fd = (ngx_socket_t) -1;
    contexts[0] = zmq_ctx_new();
    contexts[1] = zmq_ctx_new();
    if (contexts[0] == NULL || contexts[1] == NULL
        || open_socket(&config, contexts[0], &conf->config_log, "routes",
                       on_config_readable, cycle->log) != NGX_OK
        || open_events(cycle) != NGX_OK)
    {
        return NGX_ERROR;
    }
    edge_worker.running = 1;
    edge_worker.events_wanted = 1;   /* until told otherwise */
    start_timer(&batch_timer, on_batch_timer, cycle->log, 0);
    wait_for_sync();
    config_heard = events_heard = ngx_current_msec;
    send_strings(&events, "hello", NULL, NULL, NULL);
    events_hello = ngx_current_msec;
    start_timer(&config.timer, on_beat, cycle->log, BEAT_MS);
    start_timer(&retire_timer, on_retire, cycle->log, 100);
    ngx_post_event(config.connection->read, &ngx_posted_events);
    ngx_post_event(events.connection->read, &ngx_posted_events);
    return NGX_OK;
}


static void
close_socket(bus_socket_t *bus)
{
    if (bus->connection) {
        ngx_del_event(bus->connection->read, NGX_READ_EVENT, 0);
        ngx_free_connection(bus->connection);
        bus->connection->fd = (ngx_socket_t) -1;   /* zmq's, not nginx's to close */
        bus->connection = NULL;
    }
    if (bus->socket) {
        zmq_close(bus->socket);
        bus->socket = NULL;
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
    edge_ring_close();
    close_socket(&config);
    close_socket(&events);
    zmq_ctx_term(contexts[0]);
    zmq_ctx_term(contexts[1]);
}
