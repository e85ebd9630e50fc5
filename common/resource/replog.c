#include "common/resource/replog.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "common/resource/replog_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

enum {
    BEAT_MS = 250,
    ALONE_MS = 1000, /* a copy that hears no other says so often that it is there */
    DEAD_MS = 1000,
    COMPLAIN_MS = 10000,
    PEER_SUBSCRIBERS_MAX =
        128,        /* of one key: 64 workers, and as many of the edge that takes its place */
    GREET_MS = 100, /* a worker says hello when it must, and again while it waits; not more often */
    MESSAGES_PER_TURN = 256,
    NOTES_PER_TURN = 256,
    ROOM_MS = 5, /* how often to look whether a worker that is behind took what is on its way */
    MARK =
        256 /* messages that wait for one connection: those without a body, and the parts of a delta */
};

static_assert(ROSTER_BYTES + NOTES_SEAL_BYTES < 8000, "PostgreSQL takes no more in a notification");

/* ---- subscribers ---- */

static subscriber_t *find_subscriber(replog_t *self, zframe_t *identity)
{
    size_t len = zframe_size(identity);

    for (int i = 0; i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        if (sub->identity_len == len && !memcmp(sub->identity, zframe_data(identity), len))
            return sub;
    }
    return NULL;
}

/* Who left a place has it for as long as what was sent there is in our memory: otherwise one key could have any number of
 * connections that do not read. */
static bool is_taken(const subscriber_t *sub)
{
    return sub->live || transit_bytes(sub->way) > 0;
}

static bool give_place(subscriber_t *place, zframe_t *identity, const char *peer,
                       const subscriber_t *of_peer)
{
    transit_t *way = transit_new(of_peer ? of_peer->way : NULL);

    if (!way)
        return false;
    transit_destroy(&place->way);
    memset(place, 0, sizeof(*place));
    place->way = way;
    snprintf(place->peer, sizeof(place->peer), "%s", peer);
    place->identity_len = zframe_size(identity);
    memcpy(place->identity, zframe_data(identity), place->identity_len);
    return true;
}

/* own: the place that this connection left, or NULL. NULL: there is none, for anybody or for this peer. What one key takes the
 * others have. */
static subscriber_t *find_place(replog_t *self, subscriber_t *own, zframe_t *identity,
                                const char *peer)
{
    subscriber_t *spare = NULL;
    const subscriber_t *of_peer = NULL;
    int n = 0;

    for (int i = 0; i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];
        bool taken = sub != own && is_taken(sub);

        if (!strcmp(sub->peer, peer)) {
            of_peer = sub;
            n += taken;
        }
        if (!taken)
            spare = sub;
    }
    if (n >= PEER_SUBSCRIBERS_MAX || zframe_size(identity) > IDENTITY_MAX)
        return NULL;
    if (own)
        return own;
    if (!spare && self->count < SUBSCRIBERS_MAX)
        spare = &self->subscribers[self->count];
    if (!spare || !give_place(spare, identity, peer, of_peer))
        return NULL;
    if (spare == &self->subscribers[self->count])
        self->count++;
    return spare;
}

/* May changes be sent to it? A hello is answered first: what the worker has is not known before. */
static bool takes_news(const subscriber_t *sub)
{
    return sub->live && !sub->gone && !sub->greeting.waits;
}

static void forget(replog_t *self, subscriber_t *sub)
{
    sub->live = false;
    self->changed = true;
    self->say_ms = 0;
}

/* Can this copy tell a worker of that name of changes? */
static bool hears(const replog_t *self, const char *name)
{
    for (int i = 0; i < self->count; i++) {
        const subscriber_t *sub = &self->subscribers[i];

        if (sub->live && !sub->gone && !strcmp(sub->name, name))
            return true;
    }
    return false;
}

/* A worker outlives its connection and serves what it has: answers go on waiting for it until it is back, or silent for
 * too long from now on. */
static void lose(replog_t *self, subscriber_t *sub, const char *why)
{
    if (!sub->gone) {
        log_warn("edge worker %s cannot be told of changes until it says hello: %s", sub->name,
                 why);
        sub->heard_ms = bus_mono_ms();
    }
    sub->gone = true;
    sub->in_snapshot = false;
    if (hears(self, sub->name)) /* it came back before this was noticed */
        forget(self, sub);
}

/* r: what sending to it said. Later is soon enough for a worker that does not take what is on its way: it is behind. */
static void lose_unless_sent(replog_t *self, subscriber_t *sub, int r)
{
    if (r && r != -EAGAIN)
        lose(self, sub, r == -EHOSTUNREACH ? "its connection has ended" : fault_text());
}

/* With a new helper it comes by another connection, perhaps before the last one is found broken. */
static void forget_its_last(replog_t *self, const subscriber_t *sub)
{
    for (int i = 0; i < self->count; i++) {
        subscriber_t *last = &self->subscribers[i];

        if (last != sub && last->live && !strcmp(last->name, sub->name))
            forget(self, last);
    }
}

/* ---- the other copies ---- */

/* Is a worker of that name live here? */
static bool waits_for(const replog_t *self, const char *name)
{
    for (int i = 0; i < self->count; i++)
        if (self->subscribers[i].live && !strcmp(self->subscribers[i].name, name))
            return true;
    return false;
}

static int notify_workers(void *context, const char *text)
{
    replog_t *self = context;

    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(
        self->pg, &res,
        "SELECT " NOTES_NOTIFY("$1::text", "$2::text", "$3", "$4") ", revision FROM config_head", 4,
        self->args->workers_channel, text, self->notes.inner, self->notes.outer);

    if (!r && PQntuples(res) == 1 && strtoll(PQgetvalue(res, 0, 1), NULL, 10) != self->head)
        self->moved = true;
    return r;
}

/* Who found no place, for the other copies: a worker that was lost, and that no change reaches. No edge has such a name. */
#define TURNED_AWAY "turned away"

/* Which workers it hears and what they acknowledged. When this returns 0 the other copies will know it before they hear of
 * any change that is committed later: notifications come in the order of the commits. */
static int say_workers(replog_t *self)
{
    roster_worker_t workers[SUBSCRIBERS_MAX + 1];
    int n = 0;

    for (int i = 0; i < self->count; i++) {
        const subscriber_t *sub = &self->subscribers[i];
        int k = 0;

        if (!sub->live || (sub->gone && hears(self, sub->name)))
            continue;
        while (k < n && strcmp(workers[k].name, sub->name))
            k++;
        if (k == n)
            workers[n++] = (roster_worker_t){sub->name, sub->acked, sub->gone};
        else if (sub->acked < workers[k].acked) /* its last connection, and this one */
            workers[k].acked = sub->acked;
    }
    if (self->turned_away_ms)
        workers[n++] = (roster_worker_t){TURNED_AWAY, 0, true};
    self->say_ms = bus_mono_ms() + (roster_copies(self->roster) ? BEAT_MS : ALONE_MS);
    return roster_write(self->name, ++self->said, self->log_id, workers, n, notify_workers, self);
}

static int hear_workers(replog_t *self, const PGnotify *note)
{
    int r = notes_is_own(&self->sessions, self->pg, note, bus_mono_ms());

    if (r < 0)
        return r;
    if (r == 0) {
        notes_refuse(note, "another user of the database says it again");
        return 0;
    }
    r = roster_take(self->roster, note->extra, bus_mono_ms());
    if (r < 0) {
        notes_refuse(note, r == -ESTALE ? "it was said before" : "it cannot be read");
        return 0;
    }
    if (r == 1) {
        log_info("another copy is heard: %d besides this one", roster_copies(self->roster));
        self->say_ms = 0; /* it is to know at once whom this one hears */
    }
    self->others_seen = self->others_seen || roster_copies(self->roster) > 0;
    self->changed = true;
    return 0;
}

static void forget_silent_copies(replog_t *self)
{
    if (!roster_expire(self->roster, bus_mono_ms() - DEAD_MS))
        return;
    log_warn("another copy is silent: %d besides this one are heard, and workers that nobody else "
             "hears are not waited for",
             roster_copies(self->roster));
    self->changed = true;
}

/* ---- to the service ---- */

typedef struct state_message {
    const replog_t *log;
    zmsg_t *msg;
} state_message_t;

static void add_others_worker(void *context, const roster_worker_t *worker)
{
    const state_message_t *self = context;

    if (!hears(self->log, worker->name) && !(worker->lost && waits_for(self->log, worker->name)))
        zmsg_addstrf(self->msg, "%" PRId64, worker->acked);
}

/* A worker that this copy cannot tell of changes is waited for all the same, unless another copy can. */
static void tell_service(replog_t *self)
{
    state_message_t message = {self, zmsg_new()};
    int64_t unused;

    zmsg_addstr(message.msg, bus_mono_ms() < self->settle_ms ? "settling" : "state");
    zmsg_addstrf(message.msg, "%" PRId64, self->covered);
    zmsg_addstrf(message.msg, "%d", roster_copies(self->roster));
    for (int i = 0; i < self->count; i++) {
        const subscriber_t *sub = &self->subscribers[i];

        if (sub->live
            && !(sub->gone && roster_hears(self->roster, self->log_id, sub->name, &unused)))
            zmsg_addstrf(message.msg, "%" PRId64, sub->acked);
    }
    if (self->turned_away_ms)
        zmsg_addstr(message.msg, "0");
    roster_each(self->roster, self->log_id, add_others_worker, &message);
    zmsg_send(&message.msg, self->pipe);
    self->changed = false;
}

/* Everything that goes to it behind this was read after its hello. A hello without a mark is an older edge's. */
static int tell_heard(replog_t *self, subscriber_t *sub, const char *mark)
{
    return *mark ? replog_send(self, sub, "heard", 0, strtoll(mark, NULL, 10), NULL) : 0;
}

/* A worker that serves what it has and can be told of nothing: as long as it goes on asking no change passes as live everywhere. */
static void turn_away(replog_t *self, const char *peer)
{
    int64_t now = bus_mono_ms();

    self->changed = self->changed || !self->turned_away_ms;
    self->turned_away_ms = now;
    if (now - self->turned_away_said_ms < COMPLAIN_MS && self->turned_away_said_ms)
        return;
    self->turned_away_said_ms = now;
    log_warn(
        "a worker of %s finds no place at the config log, which has %d, %d for one key: it cannot "
        "be told of changes, and none is live everywhere while it asks",
        peer, SUBSCRIBERS_MAX, PEER_SUBSCRIBERS_MAX);
}

static void copy_text(char *out, size_t size, zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    snprintf(out, size, "%s", text ? text : "");
}

/* hello: log id, revision, name, mark, "parts"; may_speak has looked at the name. Kept until its turn, the last one of several: to
 * answer costs a transaction and perhaps a snapshot. */
static void on_hello(replog_t *self, subscriber_t *sub, zmsg_t *msg)
{
    greeting_t *greeting = &sub->greeting;
    char has[24], extra[8];

    copy_text(greeting->log_id, sizeof(greeting->log_id), msg);
    copy_text(has, sizeof(has), msg);
    copy_text(sub->name, sizeof(sub->name), msg);
    copy_text(greeting->mark, sizeof(greeting->mark), msg);
    copy_text(extra, sizeof(extra), msg);
    greeting->has = strtoll(has, NULL, 10);
    greeting->parts = !strcmp(extra, "parts"); /* none: an older edge's */
    greeting->waits = true;
    sub->live = self->changed = true; /* whatever follows: it may serve already */
    forget_its_last(self, sub);
    sub->sent = sub->acked = 0;
    sub->gone = sub->in_snapshot = false;
}

/* Deltas when it has a revision of this log, else a snapshot. It acknowledges nothing. */
static int answer_hello(replog_t *self, subscriber_t *sub)
{
    const greeting_t *greeting = &sub->greeting;
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r = tell_heard(self, sub, greeting->mark);

    if (r)
        return r;
    if (strcmp(greeting->log_id, self->log_id) || greeting->has <= 0
        || greeting->has > self->head) {
        replog_begin_snapshot(self, sub);
        return 0;
    }
    sub->sent = greeting->has; /* in force there, perhaps not on its disk: it acknowledges itself */
    if (!replog_has_room(sub))
        return 0; /* it is behind, or the next beat says that it is not */
    r = replog_read_news(self, greeting->has, &rows);
    if (!r)
        r = replog_send_news(self, sub, rows, greeting->has);
    return r == -EAGAIN ? 0 : r;
}

/* Subscribers by turns, each peer once: what one of them makes of work the others do not wait for. */
static bool has_had(subscriber_t *const *served, int n, const subscriber_t *sub)
{
    for (int i = 0; i < n; i++)
        if (!strcmp(served[i]->peer, sub->peer))
            return true;
    return false;
}

static bool greeting_is_due(const subscriber_t *sub, int64_t now)
{
    return sub->live && sub->greeting.waits && now - sub->greeted_ms >= GREET_MS;
}

enum { PEERS_PER_TURN = 16 };

/* Those whose turn it is, in `ret`; at: what is_due compares with. */
static int choose(replog_t *self, bool (*is_due)(const subscriber_t *, int64_t), int64_t at,
                  subscriber_t *ret[PEERS_PER_TURN])
{
    int n = 0;

    for (int i = 0; i < self->count && n < PEERS_PER_TURN; i++) {
        subscriber_t *sub = &self->subscribers[(self->first + i) % self->count];

        if (is_due(sub, at) && !has_had(ret, n, sub))
            ret[n++] = sub;
    }
    return n;
}

static void ask_who(replog_t *self, const void *identity, size_t len)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addmem(msg, identity, len);
    zmsg_addstr(msg, "who");
    zmsg_send(&msg, self->router);
    zmsg_destroy(&msg);
}

static void ask_everyone(replog_t *self)
{
    for (int i = 0; i < self->count; i++)
        if (self->subscribers[i].live)
            ask_who(self, self->subscribers[i].identity, self->subscribers[i].identity_len);
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
    const subscriber_t *sub = find_subscriber(self, identity);
    _cleanup_(free_mem) char *name = NULL;
    char why[200];

    if (!(peer.role & socket_row(SOCKET_CONFIG_LOG).who) || (sub && strcmp(sub->peer, peer.id))) {
        peer_refused(SOCKET_CONFIG_LOG, peer.id, "speaks over another's connection");
        return false;
    }
    if (strcmp(word, "hello"))
        return true;
    if (zmsg_size(msg) < 3)
        return false;
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

static void on_ack(replog_t *self, subscriber_t *sub, zmsg_t *msg)
{
    _cleanup_(free_mem) char *revision = zmsg_popstr(msg);
    _cleanup_(free_mem) char *log_id = zmsg_popstr(msg); /* NULL: an older edge's */
    bool ours = revision && (!log_id || !strcmp(log_id, self->log_id));
    int64_t acked = ours ? strtoll(revision, NULL, 10) : 0;

    if (acked <= sub->acked || acked > sub->sent)
        return;
    sub->acked = acked;
    self->changed = true;
    if (roster_lacks(self->roster, sub->name))
        self->say_ms = 0;
}

/* msg is what stands behind the word. */
static void on_word(replog_t *self, zframe_t *identity, const char *peer, const char *word,
                    zmsg_t *msg)
{
    subscriber_t *sub = find_subscriber(self, identity);
    bool hello = !strcmp(word, "hello");

    if (hello && !(sub && sub->live) && !(sub = find_place(self, sub, identity, peer))) {
        turn_away(self, peer);
        return; /* it asks again by itself */
    }
    if (!sub) { /* it subscribed to our predecessor, or to another copy alone */
        ask_who(self, zframe_data(identity), zframe_size(identity));
        return;
    }
    sub->heard_ms = bus_mono_ms();
    if (hello)
        on_hello(self, sub, msg);
    else if (!strcmp(word, "bye"))
        forget(self, sub);
    else if (!strcmp(word, "ack"))
        on_ack(self, sub, msg);
}

static void on_message(replog_t *self)
{
    zmsg_t *msg = zmsg_recv(self->router);
    zframe_t *identity = msg ? zmsg_pop(msg) : NULL;
    zframe_t *said = msg ? zmsg_pop(msg) : NULL;
    peer_t peer = peer_of(said);
    _cleanup_(free_mem) char *word = said ? zframe_strdup(said) : NULL;

    if (identity && word && may_speak(self, identity, peer, word, msg))
        on_word(self, identity, peer.id, word, msg);
    zframe_destroy(&said);
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
}

/* The database is another one than before, from a backup perhaps: what workers have is not of its log, whatever its number is. */
static void begin_again(replog_t *self, int64_t old)
{
    log_warn("the config log goes on at revision %" PRId64 " and does not know %" PRId64
             ": was the database put back? Every edge gets everything anew",
             self->head, old);
    for (int i = 0; i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        sub->acked = sub->sent = 0; /* what it goes on acknowledging is not of this log */
        sub->in_snapshot = false;
        if (self->head > old && takes_news(sub))
            replog_begin_snapshot(self, sub);
        else if (!sub->greeting.waits)
            sub->gone = true; /* it takes no lower revision before it has named its own */
    }
    self->changed = true;
    self->say_ms = 0;
    if (self->head > old)
        return;
    ask_everyone(self);
    if (roster_copies(self->roster)) /* they may not have noticed yet */
        self->settle_ms = bus_mono_ms() + DEAD_MS;
}

/* New revisions: read once, send to everyone who is up to date with the old head; push_rest has the others. */
static int push_news(replog_t *self)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int64_t old = self->head;
    int r = old ? replog_read_news(self, old, &rows) : replog_read_head(self);

    if (r || self->head == old || !old)
        return r;
    if (self->head < old || !self->known) {
        begin_again(self, old);
        return 0;
    }
    for (int i = 0; !r && i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        if (takes_news(sub) && !sub->in_snapshot && sub->sent == old && replog_has_room(sub))
            lose_unless_sent(self, sub, replog_send_news(self, sub, rows, old));
    }
    return r;
}

static void answer_hellos(replog_t *self)
{
    subscriber_t *due[PEERS_PER_TURN];
    int n = choose(self, greeting_is_due, bus_mono_ms(), due);
    int r = n ? pg_ready(self->pg) : 0;

    if (n && !r) /* before what these workers will have is read: who commits more waits for them */
        r = say_workers(self);
    if (n && !r)
        r = push_news(self);
    for (int i = 0; i < n; i++) {
        int own = r ? r : answer_hello(self, due[i]);

        due[i]->greeting.waits = own == -EAGAIN;
        due[i]->greeted_ms = bus_mono_ms();
        lose_unless_sent(self, due[i], own);
    }
}

static bool is_behind(const subscriber_t *sub, int64_t head)
{
    return takes_news(sub) && (sub->in_snapshot || sub->sent < head);
}

static bool can_go_on(const subscriber_t *sub, int64_t head)
{
    return is_behind(sub, head) && replog_has_room(sub)
           && (!sub->in_snapshot || bus_mono_ms() >= sub->snapshot_from_ms);
}

/* What was taken of that which is on its way to it is shown by one message more: this one means nothing to a worker. */
static void probe_way(replog_t *self, subscriber_t *sub)
{
    int r = 0;

    if (transit_needs_probe(sub->way))
        r = replog_send(self, sub, "heard", 0, 0, NULL);
    if (sub->live)
        lose_unless_sent(self, sub, r);
}

static int push_one(replog_t *self, subscriber_t *sub)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r;

    if (sub->in_snapshot)
        return replog_send_chunk(self, sub);
    r = replog_read_news(self, sub->sent, &rows);
    return r ? r : replog_send_news(self, sub, rows, sub->sent);
}

/* Does a worker wait until others of its key, or itself, took what is on its way? */
static bool lacks_room(const replog_t *self)
{
    for (int i = 0; i < self->count; i++)
        if (is_behind(&self->subscribers[i], self->head) && !replog_has_room(&self->subscribers[i]))
            return true;
    return false;
}

/* Subscribers whose snapshot runs, or ended before the head moved on: a piece for one of each peer. */
static int push_rest(replog_t *self)
{
    subscriber_t *due[PEERS_PER_TURN];
    int n = choose(self, can_go_on, self->head, due), r = 0;

    for (int i = 0; !r && i < n; i++) {
        r = push_one(self, due[i]);
        if (r == -EAGAIN || r == -EHOSTUNREACH) {
            lose_unless_sent(self, due[i], r);
            r = 0;
        }
    }
    if (lacks_room(self))
        for (int i = 0; i < self->count; i++)
            probe_way(self, &self->subscribers[i]);
    self->first = self->count ? (self->first + 1) % self->count : 0;
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
        roster_spare(self->roster, now);
        self->say_ms = 0;
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
    if (self->turned_away_ms && now - self->turned_away_ms > DEAD_MS) {
        self->turned_away_ms = 0;
        self->changed = true;
    }
    for (int i = 0; i < self->count; i++) {
        subscriber_t *sub = &self->subscribers[i];

        if (!sub->live) {
            probe_way(self, sub);
            continue;
        }
        if (now - sub->heard_ms > DEAD_MS) {
            log_warn("edge worker %s left the config log: silent for too long, acknowledged "
                     "revision %" PRId64,
                     sub->name, sub->acked);
            forget(self, sub);
        } else if (takes_news(sub) && !sub->in_snapshot) {
            lose_unless_sent(self, sub, replog_send(self, sub, "beat", 0, sub->sent, NULL));
        }
    }
}

/* Until when nobody has to look, unless a message or a notification comes. */
static int next_look_ms(const replog_t *self)
{
    int wait = self->listening && self->more_notes ? 0 : BEAT_MS / 2;

    for (int i = 0; self->listening && i < self->count; i++) {
        const subscriber_t *sub = &self->subscribers[i];

        if (can_go_on(sub, self->head))
            return 0;
        if (is_behind(sub, self->head) && wait > ROOM_MS)
            wait = ROOM_MS;
    }
    return wait;
}

/* What the other copies said while nobody listened is not known: they have the time to say it again. */
static int listen_for_news(replog_t *self)
{
    char sql[160];
    int r = pg_ready(self->pg);

    if (r || self->listening)
        return r;
    snprintf(sql, sizeof(sql), "SET synchronous_commit = off; LISTEN %s; LISTEN %s",
             self->args->channel, self->args->workers_channel);
    r = pg_script(self->pg, sql);
    if (!r)
        r = push_news(self);
    if (!r)
        r = say_workers(self);
    if (r)
        return r;
    self->listening = self->changed = true;
    self->covered = self->head;
    if (self->others_seen)
        self->settle_ms = bus_mono_ms() + DEAD_MS;
    return 0;
}

/* *ret_covered: the last change of which this or an earlier one notified; 0: none. */
static int take_note(replog_t *self, PGnotify *note, int64_t *ret_covered)
{
    int64_t revision = 0;

    if (!notes_open(&self->notes, note))
        return 0;
    if (!strcmp(note->relname, self->args->workers_channel))
        return hear_workers(self, note);
    if (sscanf(note->extra, "{\"revision\":%" SCNd64 "}", &revision) != 1 || revision <= 0)
        notes_refuse(note, "it cannot be read");
    else if (revision > *ret_covered)
        *ret_covered = revision;
    return 0;
}

/* Some of them: any user of the database may notify, as fast as it likes. */
static int take_notes(replog_t *self, int64_t *ret_covered)
{
    PGnotify *note;
    int r = 0;

    *ret_covered = 0;
    for (int i = 0; i < NOTES_PER_TURN; i++) {
        r = pg_take_note(self->pg, &note);
        self->more_notes = r > 0;
        if (r <= 0)
            return r;
        r = take_note(self, note, ret_covered);
        PQfreemem(note);
        if (r)
            return r;
    }
    return 0;
}

/* What was notified, also while a statement of ours ran. */
static int take_news(replog_t *self)
{
    int64_t covered;
    int r;

    while (!(r = take_notes(self, &covered)) && covered) {
        r = push_news(self);
        if (r)
            return r;
        if (covered > self->head) /* the database was put back since */
            covered = self->head;
        if (covered > self->covered)
            self->covered = covered;
        self->changed = true;
        if (self->more_notes)
            break;
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
    if (zmq_poll(items, n, next_look_ms(self)) < 0)
        return;
    if (items[0].revents & ZMQ_POLLIN) {
        _cleanup_(free_mem) char *command = zstr_recv(self->pipe);

        self->stop = !command || !strcmp(command, "$TERM");
    }
    for (int i = 0; i < MESSAGES_PER_TURN && zsock_events(self->router) & ZMQ_POLLIN; i++)
        on_message(self);
    if (self->listening)
        answer_hellos(self);
    if (self->listening && (take_news(self) || push_rest(self)))
        stop_listening(self);
    if (self->listening && bus_mono_ms() >= self->say_ms && say_workers(self))
        stop_listening(self);
    if (self->listening && self->moved) {
        self->moved = false;
        if (push_news(self))
            stop_listening(self);
    }
}

void replog_actor(zsock_t *pipe, void *context)
{
    replog_t *self = calloc(1, sizeof(*self));
    int64_t retry_ms = 0;

    self->pipe = pipe;
    self->args = context;
    self->router = bus_bind_marked(ZMQ_ROUTER, (bus_marks_t){.send = MARK, .receive = 1000},
                                   self->args->endpoint, self->args->curve_dir, SOCKET_CONFIG_LOG);
    id_make("copy", self->name);
    notes_key_init(&self->notes, self->args->key);
    self->roster = roster_new(self->name);
    if (!self->router || !self->roster
        || pg_new(&self->pg, self->args->database_url, self->args->schema)) {
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
        forget_silent_copies(self);
        if (self->changed)
            tell_service(self);
    }
    pg_destroy(&self->pg);
    roster_destroy(&self->roster);
    zsock_destroy(&self->router);
    while (self->count > 0)
        transit_destroy(&self->subscribers[--self->count].way);
    sodium_memzero(&self->notes, sizeof(self->notes));
    free(self);
}
