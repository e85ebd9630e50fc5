#include "common/replog.h"
#include "common/bus.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "common/pack.h"
#include "common/pg.h"
#include "common/secret.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
    CHUNK_ROWS = 64,   /* entries in one message: half a millisecond of an edge worker's time */
    DELTA_ROWS = 1024, /* that an edge may be behind; beyond that it gets everything */
    CHUNK_BYTES =
        1 << 20, /* of sealed entries in one message of a snapshot, or the one that is larger */
    DELTA_BYTES =
        8
        << 20, /* and in a delta: half of what a message may have (PACK_BYTES_MAX), whatever the API allows */
    BEAT_MS = 250,
    DEAD_MS = 1000,
    COMPLAIN_MS = 10000,
    SUBSCRIBERS_MAX = 256,
    IDENTITY_MAX = 64
};

typedef struct subscriber {
    unsigned char identity[IDENTITY_MAX];
    size_t identity_len;
    char peer[96]; /* whose key the connection showed: another peer cannot take it over */
    char name[128];
    int64_t sent, acked; /* revisions */
    int64_t heard_ms;
    char snapshot_kind[64], snapshot_id[64]; /* where a running snapshot has got to */
    bool in_snapshot;
    int64_t snapshot_head;
    bool live; /* answers wait for it */
    bool gone; /* and nothing goes to it before it says hello: see lose() */
} subscriber_t;

typedef struct replog {
    zsock_t *pipe, *router;
    pg_t *pg;
    const replog_args_t *args;
    char log_id[64];
    int64_t head;
    bool listening, stop, changed;
    subscriber_t subscribers[SUBSCRIBERS_MAX];
    int count;
    int64_t next_beat_ms, last_turn_ms, complain_ms;
    int64_t settle_ms; /* until then we may not know every edge: no answer leaves on our word */
} replog_t;

/* ---- entries to wire ---- */

static void put_str(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

/* Body: array of [kind, id, document or nil]; the document's bytes go through as they are. A row without a kind is none. */
static int pack_rows(replog_t *self, const PGresult *rows, msgpack_sbuffer *out)
{
    msgpack_packer packer;
    int n = PQntuples(rows);

    if (n == 1 && PQgetisnull(rows, 0, 0))
        n = 0;
    msgpack_packer_init(&packer, out, msgpack_sbuffer_write);
    msgpack_pack_array(&packer, (size_t)n);
    for (int i = 0; i < n; i++) {
        msgpack_pack_array(&packer, 3);
        put_str(&packer, PQgetvalue(rows, i, 0));
        put_str(&packer, PQgetvalue(rows, i, 1));
        if (PQgetisnull(rows, i, 2)) {
            msgpack_pack_nil(&packer);
        } else {
            char *plain = NULL;
            size_t len;
            int r = secret_open(self->args->key, PQgetvalue(rows, i, 2), &plain, &len);

            if (r)
                return fault(r, "open a config entry: is this the master key that sealed it?");
            msgpack_sbuffer_write(out, plain, len);
            secret_free(&plain, len);
        }
    }
    return 0;
}

/* Frames to a subscriber: identity, word, log id, previous revision, revision, body. */
static int send_to(replog_t *self, subscriber_t *sub, const char *word, int64_t previous,
                   int64_t revision, const msgpack_sbuffer *body)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, sub->identity, sub->identity_len);
    zmsg_addstr(msg, word);
    zmsg_addstr(msg, self->log_id);
    zmsg_addstrf(msg, "%" PRId64, previous);
    zmsg_addstrf(msg, "%" PRId64, revision);
    if (body)
        zmsg_addmem(msg, body->data, body->size);
    if (!zmsg_send(&msg, self->router))
        return 0;
    zmsg_destroy(&msg);
    return -EAGAIN; /* gone, or so far behind that it must say hello again */
}

/* Log id and revision stand in this column and the next of the first row. */
static int take_head(replog_t *self, const PGresult *res, int column)
{
    if (PQntuples(res) == 0)
        return fault(-EIO, "the config log has no head");
    snprintf(self->log_id, sizeof(self->log_id), "%s", PQgetvalue(res, 0, column));
    self->head = strtoll(PQgetvalue(res, 0, column + 1), NULL, 10);
    return 0;
}

static int read_head(replog_t *self)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(self->pg, &res, "SELECT log_id, revision FROM config_head", 0);

    return r ? r : take_head(self, res, 0);
}

/* Everything after `after` up to the head, as one delta. */
static int send_delta(replog_t *self, subscriber_t *sub, const PGresult *rows, int64_t after)
{
    msgpack_sbuffer body;
    int r;

    msgpack_sbuffer_init(&body);
    r = pack_rows(self, rows, &body);
    if (!r)
        r = send_to(self, sub, "delta", after, self->head, &body);
    msgpack_sbuffer_destroy(&body);
    if (!r)
        sub->sent = self->head;
    return r;
}

/* The head and what is new after `after` up to it, in one round trip, with columns bytes, log_id and revision behind kind, id
 * and doc. At least one row, without an entry when nothing is new. More than a delta takes is not read: see fits(). */
static int read_news(replog_t *self, int64_t after, PGresult **ret_rows)
{
    char from[24], rows[16], bytes[16];
    int r;

    snprintf(from, sizeof(from), "%" PRId64, after);
    snprintf(rows, sizeof(rows), "%d", DELTA_ROWS + 1);
    snprintf(bytes, sizeof(bytes), "%d", DELTA_BYTES);
    r = pg_exec(self->pg, ret_rows,
                "SELECT n.kind, n.id, CASE WHEN n.bytes <= $3::bigint THEN n.doc END, n.bytes, "
                "h.log_id, h.revision FROM config_head h LEFT JOIN LATERAL ("
                "SELECT kind, id, doc, revision, sum(coalesce(octet_length(doc), 0)) OVER ("
                "ORDER BY revision, kind, id ROWS UNBOUNDED PRECEDING) AS bytes FROM ("
                "SELECT kind, id, doc, revision FROM config_entry "
                "WHERE revision > $1::bigint AND revision <= h.revision "
                "ORDER BY revision LIMIT $2::int) new) n ON true ORDER BY n.revision, n.bytes",
                3, from, rows, bytes);
    return r ? r : take_head(self, *ret_rows, 4);
}

/* Are these rows of read_news all, and may they go as one message? */
static bool fits(const PGresult *rows)
{
    int n = PQntuples(rows);

    return n <= DELTA_ROWS && strtoll(PQgetvalue(rows, n - 1, 3), NULL, 10) <= DELTA_BYTES;
}

static void begin_snapshot(replog_t *self, subscriber_t *sub)
{
    sub->in_snapshot = true;
    sub->sent = 0; /* no revision that it names before the end counts */
    sub->snapshot_head = self->head;
    sub->snapshot_kind[0] = sub->snapshot_id[0] = '\0';
}

/* What is new since it was last told: as a delta, or, where that would be too much for one message, everything in chunks. */
static int send_news(replog_t *self, subscriber_t *sub, const PGresult *rows, int64_t after)
{
    if (fits(rows))
        return send_delta(self, sub, rows, after);
    begin_snapshot(self, sub);
    return 0;
}

/* One chunk of a snapshot, keyed by (kind, id): rows that change meanwhile come again in the delta
 * from the head at its start. At least one row, however large it is. */
static int send_snapshot_chunk(replog_t *self, subscriber_t *sub)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    msgpack_sbuffer body;
    char limit[16], bytes[16];
    int r, n;

    snprintf(limit, sizeof(limit), "%d", CHUNK_ROWS);
    snprintf(bytes, sizeof(bytes), "%d", CHUNK_BYTES);
    r = pg_exec(self->pg, &rows,
                "SELECT kind, id, doc FROM ("
                "SELECT kind, id, doc, sum(octet_length(doc)) OVER ("
                "ORDER BY kind, id ROWS UNBOUNDED PRECEDING) AS bytes FROM ("
                "SELECT kind, id, doc FROM config_entry WHERE doc IS NOT NULL "
                "AND (kind, id) > ($1, $2) ORDER BY kind, id LIMIT $3::int) next) chunk "
                "WHERE bytes <= $4::bigint OR bytes = octet_length(doc) ORDER BY kind, id",
                4, sub->snapshot_kind, sub->snapshot_id, limit, bytes);
    if (r)
        return r;
    n = PQntuples(rows);
    msgpack_sbuffer_init(&body);
    r = pack_rows(self, rows, &body);
    if (!r && n > 0) {
        r = send_to(self, sub, *sub->snapshot_kind ? "more" : "snapshot", 0, sub->snapshot_head,
                    &body);
        snprintf(sub->snapshot_kind, sizeof(sub->snapshot_kind), "%s", PQgetvalue(rows, n - 1, 0));
        snprintf(sub->snapshot_id, sizeof(sub->snapshot_id), "%s", PQgetvalue(rows, n - 1, 1));
    } else if (!r) {
        if (!*sub->snapshot_kind)
            r = send_to(self, sub, "snapshot", 0, sub->snapshot_head, &body);
        if (!r)
            r = send_to(self, sub, "end", 0, sub->snapshot_head, NULL);
        sub->in_snapshot = false;
        sub->sent = sub->snapshot_head;
    }
    msgpack_sbuffer_destroy(&body);
    return r;
}

/* ---- subscribers ---- */

/* make: whose it is to be when there is none. */
static subscriber_t *find_subscriber(replog_t *self, zframe_t *identity, const char *make)
{
    size_t len = zframe_size(identity);
    subscriber_t *spare = NULL;

    for (int i = 0; i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        if (sub->identity_len == len && !memcmp(sub->identity, zframe_data(identity), len))
            return sub;
        if (!sub->live)
            spare = sub;
    }
    if (!make || len > IDENTITY_MAX)
        return NULL;
    if (!spare && self->count < SUBSCRIBERS_MAX)
        spare = &self->subscribers[self->count++];
    if (!spare)
        return NULL;
    memset(spare, 0, sizeof(*spare));
    snprintf(spare->peer, sizeof(spare->peer), "%s", make);
    memcpy(spare->identity, zframe_data(identity), len);
    spare->identity_len = len;
    return spare;
}

/* A worker outlives its connection and serves what it has: answers go on waiting for it until it is back, or silent for
 * too long from now on. */
static void lose(subscriber_t *sub, const char *why)
{
    if (!sub->gone) {
        log_warn("edge worker %s cannot be told of changes until it says hello: %s", sub->name,
                 why);
        sub->heard_ms = bus_mono_ms();
    }
    sub->gone = true;
    sub->in_snapshot = false;
}

static void forget(replog_t *self, subscriber_t *sub)
{
    sub->live = false;
    self->changed = true;
}

/* With a new helper it comes by another connection. */
static void forget_its_last(replog_t *self, const subscriber_t *sub)
{
    for (int i = 0; i < self->count; i++) {
        subscriber_t *last = &self->subscribers[i];

        if (last != sub && last->live && last->gone && !strcmp(last->name, sub->name))
            forget(self, last);
    }
}

static void tell_service(replog_t *self)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addstr(msg, bus_mono_ms() < self->settle_ms ? "settling" : "state");
    for (int i = 0; i < self->count; i++)
        if (self->subscribers[i].live)
            zmsg_addstrf(msg, "%" PRId64, self->subscribers[i].acked);
    zmsg_send(&msg, self->pipe);
    self->changed = false;
}

/* Everything that goes to it behind this was read after its hello. A hello without a mark is an older edge's. */
static int tell_heard(replog_t *self, subscriber_t *sub, const char *mark)
{
    return mark ? send_to(self, sub, "heard", 0, strtoll(mark, NULL, 10), NULL) : 0;
}

/* hello: log id, revision, name, mark. Deltas when it has a revision of this log, else a snapshot. */
static int on_hello(replog_t *self, subscriber_t *sub, zmsg_t *msg)
{
    _cleanup_(free_mem) char *log_id = zmsg_popstr(msg);
    _cleanup_(free_mem) char *revision = zmsg_popstr(msg);
    _cleanup_(free_mem) char *name = zmsg_popstr(msg);
    _cleanup_(free_mem) char *mark = zmsg_popstr(msg);
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int64_t has = revision ? strtoll(revision, NULL, 10) : 0;
    int r;

    if (!log_id || !revision || !name)
        return fault(-EBADMSG, "a hello without log id, revision or name");
    snprintf(sub->name, sizeof(sub->name), "%s", name);
    sub->live = self->changed = true; /* whatever follows: it may serve already */
    forget_its_last(self, sub);
    r = pg_ready(self->pg);
    if (!r)
        r = read_head(self);
    if (!r)
        r = tell_heard(self, sub, mark);
    if (r)
        return r;
    sub->gone = false;
    sub->in_snapshot = false;
    sub->acked = 0;
    if (!strcmp(log_id, self->log_id) && has > 0 && has <= self->head) {
        sub->acked = sub->sent = has;
        r = read_news(self, has, &rows);
        return r ? r : send_news(self, sub, rows, has);
    }
    begin_snapshot(self, sub);
    return 0;
}

static void tell_refused(replog_t *self, zframe_t *identity, const char *name)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, zframe_data(identity), zframe_size(identity));
    zmsg_addstr(msg, "refused");
    zmsg_addstrf(msg, "%d", ERR_PEER_NAME);
    zmsg_addstr(msg, name);
    zmsg_send(&msg, self->router);
    zmsg_destroy(&msg);
}

/* An edge speaks for its own workers, over connections of its own: answers wait for what they acknowledge. msg is what stands
 * behind the word. */
static bool may_speak(replog_t *self, zframe_t *identity, peer_t peer, const char *word,
                      zmsg_t *msg)
{
    const subscriber_t *sub = find_subscriber(self, identity, NULL);
    _cleanup_(free_mem) char *name = NULL;
    char why[200];

    if (!(peer.role & socket_row(SOCKET_CONFIG_LOG).who) || (sub && strcmp(sub->peer, peer.id))) {
        peer_refused(SOCKET_CONFIG_LOG, peer.id, "speaks over another's connection");
        return false;
    }
    if (strcmp(word, "hello") || zmsg_size(msg) < 3)
        return true;
    zmsg_first(msg);
    zmsg_next(msg);
    name = zframe_strdup(zmsg_next(msg));
    if (peer_name_covers(peer.name, name))
        return true;
    snprintf(why, sizeof(why), "says that it is %s", name);
    peer_refused(SOCKET_CONFIG_LOG, peer.id, why);
    tell_refused(self, identity, name);
    return false;
}

static void on_message(replog_t *self)
{
    zmsg_t *msg = zmsg_recv(self->router);
    zframe_t *identity = msg ? zmsg_pop(msg) : NULL;
    zframe_t *said = msg ? zmsg_pop(msg) : NULL;
    peer_t peer = peer_of(said);
    _cleanup_(free_mem) char *word = said ? zframe_strdup(said) : NULL;
    bool may = identity && word && may_speak(self, identity, peer, word, msg);
    subscriber_t *sub =
        may ? find_subscriber(self, identity, strcmp(word, "hello") ? NULL : peer.id) : NULL;

    if (may && !sub) {
        zmsg_t *who = zmsg_new(); /* it subscribed to our predecessor */

        zmsg_addmem(who, zframe_data(identity), zframe_size(identity));
        zmsg_addstr(who, "who");
        zmsg_send(&who, self->router);
        zmsg_destroy(&who);
    }
    if (sub) {
        sub->heard_ms = bus_mono_ms();
        if (!strcmp(word, "hello")) {
            int r = on_hello(self, sub, msg);

            if (r)
                lose(sub, r == -EAGAIN ? "cannot send" : fault_text());
        } else if (!strcmp(word, "bye")) {
            forget(self, sub);
        } else if (!strcmp(word, "ack")) {
            _cleanup_(free_mem) char *revision = zmsg_popstr(msg);
            int64_t acked = revision ? strtoll(revision, NULL, 10) : 0;

            if (acked > sub->acked && acked <= sub->sent) {
                sub->acked = acked;
                self->changed = true;
            }
        }
    }
    zframe_destroy(&said);
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
}

/* New revisions: read once, send to everyone who is up to date with the old head; push_rest has the others. */
static int push_news(replog_t *self)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int64_t old = self->head;
    int r = old ? read_news(self, old, &rows) : read_head(self);

    if (r || self->head == old || !old)
        return r;
    for (int i = 0; !r && i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        if (sub->live && !sub->gone && !sub->in_snapshot && sub->sent == old
            && send_news(self, sub, rows, old))
            lose(sub, "cannot send");
    }
    return r;
}

/* Subscribers whose snapshot ended before the head moved on. */
static int push_rest(replog_t *self)
{
    int r = 0;

    for (int i = 0; !r && i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];
        _cleanup_(pgresult_clear) PGresult *rows = NULL;

        if (!sub->live || sub->gone)
            continue;
        if (sub->in_snapshot) {
            r = send_snapshot_chunk(self, sub);
        } else if (sub->sent < self->head) {
            r = read_news(self, sub->sent, &rows);
            if (!r)
                r = send_news(self, sub, rows, sub->sent);
        }
        if (r == -EAGAIN) {
            lose(sub, "cannot send");
            r = 0;
        }
    }
    return r;
}

/* After a start, or when this process was stopped for a while, edges get the time to be heard before
 * anyone is counted as gone and before a change counts as live without them. */
static void settle(replog_t *self)
{
    int64_t now = bus_mono_ms();

    if (now - self->last_turn_ms > DEAD_MS / 2) {
        self->settle_ms = now + DEAD_MS;
        self->changed = true;
        for (int i = 0; i < self->count; i++)
            self->subscribers[i].heard_ms = now;
    }
    if (self->settle_ms && now >= self->settle_ms) {
        self->settle_ms = 0;
        self->changed = true;
    }
    self->last_turn_ms = now;
}

static void beat(replog_t *self)
{
    int64_t now = bus_mono_ms();

    if (now < self->next_beat_ms)
        return;
    self->next_beat_ms = now + BEAT_MS;
    for (int i = 0; i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        if (!sub->live)
            continue;
        if (now - sub->heard_ms > DEAD_MS) {
            log_warn("edge worker %s left the config log: silent for too long, acknowledged "
                     "revision %" PRId64,
                     sub->name, sub->acked);
            forget(self, sub);
        } else if (!sub->gone && !sub->in_snapshot
                   && send_to(self, sub, "beat", 0, sub->sent, NULL)) {
            lose(sub, "cannot send");
        }
    }
}

static bool any_snapshot(const replog_t *self)
{
    for (int i = 0; i < self->count; i++)
        if (self->subscribers[i].live && self->subscribers[i].in_snapshot)
            return true;
    return false;
}

static int listen_for_news(replog_t *self)
{
    char sql[96];
    int r = pg_ready(self->pg);

    if (r || self->listening)
        return r;
    snprintf(sql, sizeof(sql), "LISTEN %s", self->args->channel);
    r = pg_script(self->pg, sql);
    if (!r)
        r = push_news(self);
    self->listening = !r;
    return r;
}

/* What was notified, also while a statement of ours ran. */
static int take_news(replog_t *self)
{
    int r;

    while ((r = pg_notified(self->pg)) > 0) {
        r = push_news(self);
        if (r)
            return r;
    }
    return r;
}

/* Until the next try, which may fail for the same reason three times a second: it is said every ten. */
static void stop_listening(replog_t *self)
{
    int64_t now = bus_mono_ms();

    self->listening = false;
    if (now >= self->complain_ms) {
        self->complain_ms = now + COMPLAIN_MS;
        log_warn("no edge can be told of changes now: %s", fault_text());
    }
}

static void turn(replog_t *self)
{
    zmq_pollitem_t items[] = {{zsock_resolve(self->pipe), 0, ZMQ_POLLIN, 0},
                              {zsock_resolve(self->router), 0, ZMQ_POLLIN, 0},
                              {NULL, pg_socket(self->pg), ZMQ_POLLIN, 0}};
    int n = items[2].fd >= 0 ? 3 : 2;

    if (self->listening && take_news(self)) {
        stop_listening(self);
        return;
    }
    if (zmq_poll(items, n, any_snapshot(self) ? 0 : BEAT_MS / 2) < 0)
        return;
    if (items[0].revents & ZMQ_POLLIN) {
        _cleanup_(free_mem) char *command = zstr_recv(self->pipe);

        self->stop = !command || !strcmp(command, "$TERM");
    }
    for (int i = 0; i < 64 && zsock_events(self->router) & ZMQ_POLLIN; i++)
        on_message(self);
    if (self->listening && (take_news(self) || push_rest(self)))
        stop_listening(self);
}

void replog_actor(zsock_t *pipe, void *context)
{
    replog_t *self = calloc(1, sizeof(*self));
    int64_t retry_ms = 0;

    self->pipe = pipe;
    self->args = context;
    self->router = bus_bind_marked(ZMQ_ROUTER, (bus_marks_t){.send = 10000, .receive = 1000},
                                   self->args->endpoint, self->args->curve_dir, SOCKET_CONFIG_LOG);
    if (!self->router || pg_new(&self->pg, self->args->database_url, self->args->schema)) {
        log_error("cannot start the config log: %s", fault_text());
        self->stop = true;
    } else {
        zsock_set_router_mandatory(self->router, 1);
        zsock_set_sndtimeo(self->router, 0);
    }
    zsock_signal(pipe, self->stop ? 1 : 0);
    while (!self->stop) {
        if (!self->listening && bus_mono_ms() >= retry_ms) {
            retry_ms = bus_mono_ms() + 300;
            listen_for_news(self);
        }
        turn(self);
        settle(self);
        beat(self);
        if (self->changed)
            tell_service(self);
    }
    pg_destroy(&self->pg);
    zsock_destroy(&self->router);
    free(self);
}
