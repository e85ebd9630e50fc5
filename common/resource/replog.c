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
    RETRY_MS = 300, /* the database */
    COMPLAIN_MS = 10000,
    MESSAGES_PER_TURN = 256,
    ROOM_MS = 5, /* how often to check whether a worker that is behind can be sent more */
    /* Send high-water mark of one connection: messages without a body, and the parts of a delta. */
    MARK = 256
};

/* ---- workers that go ---- */

void replog_let_go(replog_t *self, place_t *place)
{
    subscriber_leave(&place->sub);
    self->changed = true;
    self->say_ms = 0;
}

/* A worker that lost its connection goes on serving its last revision: replies to changes wait for
 * it until it is back, or has been silent for SUBSCRIBER_DEAD_MS. */
static void lose_worker(replog_t *self, place_t *place, const char *why)
{
    if (subscriber_lose(&place->sub, bus_mono_ms()))
        log_warn("edge worker %s cannot be told of changes until it says hello: %s", place->name,
                 why);
    if (places_reach(&self->places, place->name)) /* it has already reconnected */
        replog_let_go(self, place);
}

/* r: the result of sending to the worker. -EAGAIN is not an error: a worker whose queue is full is
 * sent the rest later. */
static void lose_unless_sent(replog_t *self, place_t *place, int r)
{
    if (r && r != -EAGAIN)
        lose_worker(self, place, r == -EHOSTUNREACH ? "its connection has ended" : fault_text());
}

/* ---- hellos ---- */

/* Repeat the hello's mark, so that the worker knows: messages after this one answer that hello. A
 * hello of an older edge has no mark. */
static int tell_heard(replog_t *self, place_t *place)
{
    const char *mark = place->sub.greeting.mark;

    return *mark ? replog_send(self, place, "heard", 0, strtoll(mark, NULL, 10), NULL) : 0;
}

/* Answer with deltas if the worker has a revision of this log, else with a snapshot. A hello does
 * not count as an acknowledgement. -EAGAIN: not now. */
static int answer_hello(replog_t *self, place_t *place)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r = tell_heard(self, place);

    if (r || !subscriber_answer(&place->sub, self->log_id, self->head, bus_mono_ms()))
        return r;
    if (!replog_has_room(place))
        return 0; /* the snapshot follows, or the next heartbeat says that nothing is missing */
    r = replog_read_news(self, place->sub.sent, &rows);
    return r ? r : replog_send_news(self, place, rows, place->sub.sent);
}

static bool hello_is_due(const place_t *place, int64_t now_ms)
{
    return subscriber_hello_is_due(&place->sub, now_ms);
}

/* ---- news ---- */

/* The database was replaced, for example by a backup: revisions that workers have do not belong to
 * its log, whatever their numbers. */
static void begin_again(replog_t *self, int64_t old)
{
    int64_t now = bus_mono_ms();

    log_warn("the config log goes on at revision %" PRId64 " and does not know %" PRId64
             ": was the database put back? Every edge gets everything anew",
             self->head, old);
    for (int i = 0; i < self->places.count; i++)
        subscriber_begin_again(&self->places.list[i].sub, old, self->head, now);
    self->changed = true;
    self->say_ms = 0;
    if (self->head > old)
        return;
    replog_ask_everyone(self);
    if (roster_copies(self->roster)) /* other copies may not have noticed yet */
        self->settle_ms = now + SUBSCRIBER_DEAD_MS;
}

/* Read new revisions once and send them to all workers that are up to date with the old head;
 * push_rest serves the others. */
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
    for (int i = 0; !r && i < self->places.count; i++) {
        place_t *place = &self->places.list[i];

        if (place->sub.state == SUBSCRIBER_FOLLOWING && place->sub.sent == old
            && replog_has_room(place))
            lose_unless_sent(self, place, replog_send_news(self, place, rows, old));
    }
    return r;
}

static void answer_hellos(replog_t *self)
{
    place_t *due[PLACES_PER_TURN];
    int n = places_choose(&self->places, hello_is_due, bus_mono_ms(), due);
    int r = n ? pg_ready(self->pg) : 0;

    if (n && !r) /* first tell other copies, so that replies to later changes wait for these */
        r = replog_say_workers(self);
    if (n && !r)
        r = push_news(self);
    for (int i = 0; i < n; i++) {
        int own = r ? r : answer_hello(self, due[i]);

        subscriber_try(&due[i]->sub, bus_mono_ms());
        lose_unless_sent(self, due[i], own);
    }
}

static bool can_go_on(const place_t *place, int64_t head)
{
    return subscriber_can_go_on(&place->sub, head, replog_has_room(place), bus_mono_ms());
}

/* Send a message without meaning to the worker, if that shows how much of the queue the kernel has
 * taken (transit.h). */
static void probe_way(replog_t *self, place_t *place)
{
    int r = 0;

    if (transit_needs_probe(place->way))
        r = replog_send(self, place, "heard", 0, 0, NULL);
    if (subscriber_is_live(&place->sub))
        lose_unless_sent(self, place, r);
}

static int push_one(replog_t *self, place_t *place)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r;

    if (place->sub.state == SUBSCRIBER_SNAPSHOT)
        return replog_send_chunk(self, place);
    r = replog_read_news(self, place->sub.sent, &rows);
    return r ? r : replog_send_news(self, place, rows, place->sub.sent);
}

/* Is a worker behind that can be sent nothing now, because too many bytes are queued for it or its
 * key? */
static bool lacks_room(const replog_t *self)
{
    for (int i = 0; i < self->places.count; i++) {
        const place_t *place = &self->places.list[i];

        if (subscriber_is_behind(&place->sub, self->head) && !replog_has_room(place))
            return true;
    }
    return false;
}

/* Send one piece each to workers that are in a snapshot or behind, at most one worker of each
 * peer. */
static int push_rest(replog_t *self)
{
    place_t *due[PLACES_PER_TURN];
    int n = places_choose(&self->places, can_go_on, self->head, due), r = 0;

    for (int i = 0; !r && i < n; i++) {
        r = push_one(self, due[i]);
        if (r == -EAGAIN || r == -EHOSTUNREACH) {
            lose_unless_sent(self, due[i], r);
            r = 0;
        }
    }
    if (lacks_room(self))
        for (int i = 0; i < self->places.count; i++)
            probe_way(self, &self->places.list[i]);
    places_next_turn(&self->places);
    return r;
}

/* ---- time ---- */

/* After a start, or when this process was stopped for a while, give workers time to be heard again,
 * before any of them counts as gone and a change counts as live without it. */
static void settle_after_pause(replog_t *self)
{
    int64_t now = bus_mono_ms();

    if (now - self->last_turn_ms > SUBSCRIBER_DEAD_MS / 2) {
        self->settle_ms = now + SUBSCRIBER_DEAD_MS;
        self->changed = true;
        for (int i = 0; i < self->places.count; i++)
            subscriber_spare(&self->places.list[i].sub, now);
        roster_spare(self->roster, now);
        self->say_ms = 0;
    }
    if (self->settle_ms && now >= self->settle_ms) {
        self->settle_ms = 0;
        self->changed = true;
    }
    self->last_turn_ms = now;
}

static void beat_one(replog_t *self, place_t *place, int64_t now)
{
    if (!subscriber_is_live(&place->sub)) {
        probe_way(self, place);
    } else if (subscriber_is_silent(&place->sub, now)) {
        log_warn("edge worker %s left the config log: silent for too long, acknowledged "
                 "revision %" PRId64,
                 place->name, place->sub.acked);
        replog_let_go(self, place);
    } else if (place->sub.state == SUBSCRIBER_FOLLOWING) {
        /* without the database the other copies do not hear of its workers, and answer without
         * them: it says so by repeating no sign */
        lose_unless_sent(self, place,
                         replog_send(self, place, "beat", self->listening ? place->sign : 0,
                                     place->sub.sent, NULL));
    }
}

static void beat_workers(replog_t *self)
{
    int64_t now = bus_mono_ms();

    if (now < self->next_beat_ms)
        return;
    self->next_beat_ms = now + BEAT_MS;
    if (places_forget_turned_away(&self->places, now))
        self->changed = true;
    for (int i = 0; i < self->places.count; i++)
        beat_one(self, &self->places.list[i], now);
}

/* Milliseconds until the next turn, unless a message or a notification comes before. */
static int next_look_ms(const replog_t *self)
{
    int wait = self->listening && self->more_notes ? 0 : BEAT_MS / 2;

    for (int i = 0; self->listening && i < self->places.count; i++) {
        const place_t *place = &self->places.list[i];

        if (can_go_on(place, self->head))
            return 0;
        if (subscriber_is_behind(&place->sub, self->head) && wait > ROOM_MS)
            wait = ROOM_MS;
    }
    return wait;
}

/* ---- the actor ---- */

/* Start listening for notifications. Those of other copies in the meantime are lost: wait until the
 * copies have repeated them. */
static int listen_for_news(replog_t *self)
{
    char sql[160];
    int r = pg_ready(self->pg);

    if (r || self->listening)
        return r;
    snprintf(sql, sizeof(sql), "SET synchronous_commit = off; LISTEN %s; LISTEN %s", self->channel,
             self->workers_channel);
    r = pg_script(self->pg, sql);
    if (!r)
        r = push_news(self);
    if (!r)
        r = replog_say_workers(self);
    if (r)
        return r;
    self->listening = self->changed = true;
    self->covered = self->head;
    if (self->others_seen)
        self->settle_ms = bus_mono_ms() + SUBSCRIBER_DEAD_MS;
    return 0;
}

/* Handle all notifications, also those that arrived during a statement. */
static int take_news(replog_t *self)
{
    int64_t covered;
    int r;

    while (!(r = replog_take_notes(self, &covered)) && covered) {
        r = push_news(self);
        if (r)
            return r;
        if (covered > self->head) /* the database was restored since */
            covered = self->head;
        if (covered > self->covered)
            self->covered = covered;
        self->changed = true;
        if (self->more_notes)
            break;
    }
    return r;
}

/* After a failure of the database, until the next attempt. Attempts may fail three times a second,
 * so the failure is logged every ten seconds only. */
static void stop_listening(replog_t *self)
{
    int64_t now = bus_mono_ms();

    self->listening = false;
    if (now >= self->complain_ms) {
        self->complain_ms = now + COMPLAIN_MS;
        log_warn("no edge can be told of changes now: %s", fault_text());
    }
}

static void take_turn(replog_t *self)
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
        replog_take_message(self);
    if (self->listening)
        answer_hellos(self);
    if (self->listening && (take_news(self) || push_rest(self)))
        stop_listening(self);
    if (self->listening && bus_mono_ms() >= self->say_ms && replog_say_workers(self))
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
    snprintf(self->channel, sizeof(self->channel), REPLOG_CHANNEL, self->args->schema);
    snprintf(self->workers_channel, sizeof(self->workers_channel), REPLOG_WORKERS_CHANNEL,
             self->args->schema);
    self->router = bus_bind_marked(ZMQ_ROUTER, (bus_marks_t){.send = MARK, .receive = 1000},
                                   self->args->endpoint, self->args->curve_dir, self->args->socket);
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
            retry_ms = bus_mono_ms() + RETRY_MS;
            listen_for_news(self);
        }
        take_turn(self);
        settle_after_pause(self);
        beat_workers(self);
        replog_forget_silent_copies(self);
        if (self->changed)
            replog_tell_service(self);
    }
    pg_destroy(&self->pg);
    roster_destroy(&self->roster);
    zsock_destroy(&self->router);
    places_done(&self->places);
    sodium_memzero(&self->notes, sizeof(self->notes));
    free(self);
}
