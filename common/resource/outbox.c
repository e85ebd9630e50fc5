#include "common/resource/outbox.h"
#include "common/resource/outbox_batch.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/codec/pack.h"
#include "common/store/pg.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    GATHER_MS = 10, /* wait after a notification, so that changes are batched */
    ACK_TIMEOUT_MS = 1000,
    IDLE_MS = 1000,
    RETRY_MS = 300,
    TIDY_PAUSE_MS = 10, /* between two steps of tidying: events go first */
    COMPLAIN_MS = 600000,
    SILENT_MS = 5000 /* a copy that is stopped for so long loses its session, and the lock */
};

static _Atomic int64_t refused;

int64_t outbox_refused(void)
{
    return refused;
}

typedef struct outbox {
    zsock_t *pipe, *events;
    pg_t *pg;
    const char *schema;
    char producer[64], channel[160];
    const outbox_args_t *args;
    PGresult *rows; /* of the batch that is not acknowledged yet; NULL: there is none */
    outbox_batch_t batch;
    int64_t tidy_ms, complain_ms; /* when to tidy, and when to log a problem, next */
    bool listening, stop;
} outbox_t;

/* Wait for a notification, a command or the timeout. True: there are new events. */
static bool wait_ms(outbox_t *self, int ms)
{
    zmq_pollitem_t items[] = {{zsock_resolve(self->pipe), 0, ZMQ_POLLIN, 0},
                              {NULL, pg_socket(self->pg), ZMQ_POLLIN, 0}};
    int n = items[1].fd >= 0 ? 2 : 1, seen = n == 2 ? pg_notified(self->pg) : 0;

    if (zmq_poll(items, n, seen ? 0 : ms) < 0)
        return false;
    if (items[0].revents & ZMQ_POLLIN) {
        _cleanup_(free_mem) char *command = zstr_recv(self->pipe);

        self->stop = !command || !strcmp(command, "$TERM");
    }
    if (n == 2 && items[1].revents && seen == 0)
        seen = pg_notified(self->pg);
    if (seen < 0)
        self->listening = false;
    return seen > 0;
}

/* One copy of the service sends at a time, so that events keep their order and are sent once: the
 * one whose session has the advisory lock. When that session ends, or is idle for SILENT_MS,
 * another copy takes over within a second. */
static int take_turn(outbox_t *self)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_ready(self->pg);

    if (!r)
        r = pg_exec(self->pg, &res,
                    "SELECT pg_try_advisory_lock(hashtext('postern outbox'), hashtext($1))", 1,
                    self->schema);
    if (!r && *PQgetvalue(res, 0, 0) == 't') {
        r = pg_script(self->pg, self->channel);
        self->listening = !r;
    }
    return r;
}

/* Frames: "batch", header, body (proto/WIRE.md). 0 | -EBADMSG: an event is malformed or too large |
 * -ENOMEM. */
static int make_batch(const outbox_t *self, zmsg_t **ret_msg)
{
    _cleanup_(json_clear_ref) json_t *header =
        json_pack("{s:s, s:I, s:i, s:s}", "producer", self->producer, "seq",
                  (json_int_t)self->batch.number, "count", self->batch.count, "family", "audit");
    msgpack_sbuffer body, head;
    zmsg_t *msg;
    int r = 0;

    msgpack_sbuffer_init(&body);
    msgpack_sbuffer_init(&head);
    for (int i = 0; !r && i < self->batch.count; i++)
        r = outbox_batch_add(PQgetvalue(self->rows, i, 1), &body);
    if (!r && body.size > BUS_BATCH_MAX)
        r = -EBADMSG;
    if (!r)
        r = header ? pack_json(&head, header) : -ENOMEM;
    if (!r) {
        msg = zmsg_new();
        zmsg_addstr(msg, "batch");
        zmsg_addmem(msg, head.data, head.size);
        zmsg_addmem(msg, body.data, body.size);
        *ret_msg = msg;
    }
    msgpack_sbuffer_destroy(&body);
    msgpack_sbuffer_destroy(&head);
    return r;
}

/* 0 when the event service acknowledged the batch | -EBADMSG: it refuses it | -ETIMEDOUT. */
static int await_ack(outbox_t *self)
{
    int64_t deadline = bus_mono_ms() + ACK_TIMEOUT_MS;

    while (bus_mono_ms() < deadline && !self->stop) {
        zmq_pollitem_t items[] = {{zsock_resolve(self->events), 0, ZMQ_POLLIN, 0},
                                  {zsock_resolve(self->pipe), 0, ZMQ_POLLIN, 0}};
        zmq_poll(items, 2, (long)(deadline - bus_mono_ms()));
        if (items[0].revents & ZMQ_POLLIN) {
            _cleanup_(free_mem) char *word = NULL;
            _cleanup_(free_mem) char *acked = NULL;

            zstr_recvx(self->events, &word, &acked, NULL);
            if (!word || !acked || strtoll(acked, NULL, 10) != self->batch.number)
                continue;
            if (!strcmp(word, "ack"))
                return 0;
            if (!strcmp(word, "bad"))
                return -EBADMSG;
        }
        if (items[1].revents & ZMQ_POLLIN)
            wait_ms(self, 0);
    }
    return -ETIMEDOUT;
}

/* Run sql, which deletes or moves the batch's rows; their ids are its $1. Exactly these rows, not
 * all up to the last one: a row with a lower number may have been committed meanwhile. */
static int end_rows(const outbox_t *self, const char *sql)
{
    _cleanup_(free_mem) char *list = NULL;
    size_t len, n = (size_t)self->batch.count, size = 24 * n + 3;

    list = malloc(size);
    if (!list)
        return -ENOMEM;
    len = (size_t)snprintf(list, size, "{");
    for (size_t i = 0; i < n; i++)
        len += (size_t)snprintf(list + len, size - len, "%s%s", i ? "," : "",
                                PQgetvalue(self->rows, (int)i, 0));
    snprintf(list + len, size - len, "}");
    return pg_exec(self->pg, NULL, sql, 1, list);
}

static void forget_batch(outbox_t *self)
{
    PQclear(self->rows);
    self->rows = NULL;
    outbox_batch_drop(&self->batch);
}

/* Make a batch of the oldest rows. 0 | fault. */
static int gather_batch(outbox_t *self)
{
    int bytes[OUTBOX_BATCH_MAX], n = 0;
    char limit[16];
    int r;

    snprintf(limit, sizeof(limit), "%d", OUTBOX_BATCH_MAX);
    r = pg_exec(self->pg, &self->rows, "SELECT seq, event FROM outbox ORDER BY seq LIMIT $1::int",
                1, limit);
    for (; !r && n < PQntuples(self->rows); n++)
        bytes[n] = PQgetlength(self->rows, n, 1);
    outbox_batch_begin(&self->batch, bytes, n);
    if (n == 0)
        forget_batch(self);
    return r;
}

/* The event service refused the batch. A single event is moved to outbox_refused, so that the
 * others can be sent; of several it is not known which one was refused, so each is sent alone. */
static int set_aside(outbox_t *self)
{
    _cleanup_(json_clear_ref) json_t *event = NULL;
    const char *id;
    char quoted[200];
    int r;

    if (!outbox_batch_refuse(&self->batch))
        return 0;
    r = end_rows(self, "WITH gone AS (DELETE FROM outbox WHERE seq = ANY($1::bigint[]) RETURNING "
                       "event) INSERT INTO outbox_refused (event) SELECT event FROM gone");
    if (r)
        return r;
    event = json_loads(PQgetvalue(self->rows, 0, 1), 0, NULL);
    id = json_string_value(json_object_get(event, "event_id"));
    log_error("an audit event is refused by the event service and kept in table %s.outbox_refused: "
              "\"%s\"",
              self->schema,
              log_quote(id ? id : "", id ? strnlen(id, 40) : 0, quoted, sizeof(quoted)));
    refused++;
    return 0;
}

/* Send one batch: the one that is not acknowledged, with exactly its rows, else the next.
 * *ret_more: there may be more. */
static int send_batch(outbox_t *self, bool *ret_more)
{
    zmsg_t *msg = NULL;
    int r = self->rows ? 0 : gather_batch(self);

    *ret_more = false;
    if (r || !self->rows)
        return r;
    r = make_batch(self, &msg);
    if (!r && zmsg_send(&msg, self->events)) {
        zmsg_destroy(&msg);
        return -EAGAIN;
    }
    if (!r)
        r = await_ack(self);
    if (!r)
        r = end_rows(self, "DELETE FROM outbox WHERE seq = ANY($1::bigint[])");
    else if (r == -EBADMSG)
        r = set_aside(self);
    if (r)
        return r;
    *ret_more = outbox_batch_end(&self->batch);
    forget_batch(self);
    return 0;
}

/* Refused events stay in their table until an operator puts them back or deletes them. */
static void count_refused(const outbox_t *self)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;

    if (!pg_exec(self->pg, &res, "SELECT count(*) FROM outbox_refused", 0))
        refused = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
}

/* Tidy up, also while events cannot be sent. *ret_more: there is more to tidy. */
static int outbox_tidy(outbox_t *self, bool *ret_more)
{
    int r;

    *ret_more = false;
    if (bus_mono_ms() < self->tidy_ms)
        return 0;
    count_refused(self);
    r = tidy_step(self->pg, &self->args->tidy, ret_more);
    if (!*ret_more)
        self->tidy_ms = bus_mono_ms() + 1000 * self->args->tidy_seconds;
    if (r && r != PG_DOWN && bus_mono_ms() >= self->complain_ms) {
        self->complain_ms = bus_mono_ms() + COMPLAIN_MS;
        log_warn("what is too old cannot be deleted: %s", fault_text());
    }
    return r;
}

/* Wait until there is something to do. r: result of the last attempt. */
static void wait_for_work(outbox_t *self, int r, bool tidying)
{
    int ms = r ? RETRY_MS : tidying ? TIDY_PAUSE_MS : IDLE_MS;

    if (wait_ms(self, ms) && !r)
        zclock_sleep(GATHER_MS);
}

void outbox_actor(zsock_t *pipe, void *context)
{
    const outbox_args_t *args = context;
    outbox_t self = {.pipe = pipe, .args = args};

    self.schema = args->schema;
    snprintf(self.producer, sizeof(self.producer), "outbox/%s", args->schema);
    outbox_batch_init(&self.batch, bus_now_ms());
    /* No need to wait for the disk: if PostgreSQL loses a deletion in a crash, its events are sent
     * again, and postern-events recognises them by their ids. */
    snprintf(self.channel, sizeof(self.channel),
             "SET synchronous_commit = off; SET idle_session_timeout = %d; LISTEN %s_outbox",
             SILENT_MS, args->schema);
    self.events = bus_connect(ZMQ_DEALER, args->events_endpoint, args->curve_dir,
                              role_name(socket_row(SOCKET_INTAKE).owner));
    if (pg_new(&self.pg, args->database_url, args->schema) || !self.events) {
        log_error("cannot start the audit publisher: %s", fault_text());
        self.stop = true;
    } else {
        zsock_set_sndtimeo(self.events, 200);
    }
    zsock_signal(pipe, 0);
    while (!self.stop) {
        bool more = false, tidying = false;
        int r = self.listening ? pg_ready(self.pg) : take_turn(&self);

        if (!r && self.listening)
            r = send_batch(&self, &more);
        if (r != PG_DOWN && self.listening && outbox_tidy(&self, &tidying) == PG_DOWN)
            r = PG_DOWN;
        if (r
            == PG_DOWN) { /* the lock went with the session: another copy may send the same rows */
            self.listening = false;
            forget_batch(&self);
        }
        if (!more)
            wait_for_work(&self, r, tidying);
    }
    forget_batch(&self);
    pg_destroy(&self.pg);
    zsock_destroy(&self.events);
}
