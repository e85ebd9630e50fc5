/* The copies of a service exchange lists of their workers in notifications; the sum of these lists
 * is reported to the service. */
#include "common/base/log.h"
#include "common/base/cleanup.h"
#include "common/bus/bus.h"
#include "common/resource/replog_internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    SAY_MS = 250,
    ALONE_MS = 1000, /* interval of notifications of a copy that hears no other copy */
    NOTES_PER_TURN = 256
};

static_assert(ROSTER_BYTES + NOTES_SEAL_BYTES < 8000, "PostgreSQL takes no more in a notification");

static int notify_workers(void *context, const char *text)
{
    replog_t *self = context;

    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(
        self->pg, &res,
        "SELECT " NOTES_NOTIFY("$1::text", "$2::text", "$3", "$4") ", revision FROM config_head", 4,
        self->workers_channel, text, self->notes.inner, self->notes.outer);

    if (!r && PQntuples(res) == 1 && strtoll(PQgetvalue(res, 0, 1), NULL, 10) != self->head)
        self->moved = true;
    return r;
}

/* Name under which other copies are told of workers that were turned away, as of one that is lost
 * and cannot be reached. No edge can have this name. */
#define TURNED_AWAY "turned away"

/* Add a worker to the list. If it has two connections, an old and a new one, the lower revision
 * counts. */
static int add_worker(roster_worker_t *workers, int n, const place_t *place)
{
    const subscriber_t *sub = &place->sub;
    int k = 0;

    while (k < n && strcmp(workers[k].name, place->name))
        k++;
    if (k == n)
        workers[n++] = (roster_worker_t){place->name, sub->acked, sub->state == SUBSCRIBER_LOST};
    else if (sub->acked < workers[k].acked)
        workers[k].acked = sub->acked;
    return n;
}

/* Has the worker lost its connection, and not made another one to this copy? */
static bool is_lost(const replog_t *self, const place_t *place)
{
    return place->sub.state == SUBSCRIBER_LOST && !places_reach(&self->places, place->name);
}

int replog_say_workers(replog_t *self)
{
    roster_worker_t workers[PLACES_MAX + 1];
    int n = 0;

    for (int i = 0; i < self->places.count; i++) {
        const place_t *place = &self->places.list[i];

        if (subscriber_is_reached(&place->sub) || is_lost(self, place))
            n = add_worker(workers, n, place);
    }
    if (places_somebody_is_turned_away(&self->places))
        workers[n++] = (roster_worker_t){TURNED_AWAY, 0, true};
    self->say_ms = bus_mono_ms() + (roster_copies(self->roster) ? SAY_MS : ALONE_MS);
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
        self->say_ms = 0; /* a new copy is told at once which workers this one hears */
    }
    self->others_seen = self->others_seen || roster_copies(self->roster) > 0;
    self->changed = true;
    return 0;
}

static int take_note(replog_t *self, PGnotify *note, int64_t *ret_covered)
{
    int64_t revision = 0;

    if (!notes_open(&self->notes, note))
        return 0;
    if (!strcmp(note->relname, self->workers_channel))
        return hear_workers(self, note);
    if (sscanf(note->extra, "{\"revision\":%" SCNd64 "}", &revision) != 1 || revision <= 0)
        notes_refuse(note, "it cannot be read");
    else if (revision > *ret_covered)
        *ret_covered = revision;
    return 0;
}

/* At most NOTES_PER_TURN: any user of the database may notify, as fast as it likes. */
int replog_take_notes(replog_t *self, int64_t *ret_covered)
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

void replog_forget_silent_copies(replog_t *self)
{
    if (!roster_expire(self->roster, bus_mono_ms() - SUBSCRIBER_DEAD_MS))
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

    if (!places_reach(&self->log->places, worker->name)
        && !(worker->lost && places_wait_for(&self->log->places, worker->name)))
        zmsg_addstrf(self->msg, "%" PRId64, worker->acked);
}

/* Has the worker lost its connection here, and does another copy reach it and report its
 * revision? */
static bool is_told_elsewhere(const replog_t *self, const place_t *place)
{
    int64_t unused;

    return place->sub.state == SUBSCRIBER_LOST
           && roster_hears(self->roster, self->log_id, place->name, &unused);
}

/* Append the streams ended by workers that this copy itself hears. */
static void add_ended(const replog_t *self, zmsg_t *msg)
{
    char text[ENDED_BYTES];
    ended_t sum = {0};

    for (int i = 0; i < self->places.count; i++)
        if (subscriber_is_live(&self->places.list[i].sub))
            ended_add(&sum, &self->places.list[i].ended);
    ended_write(&sum, text);
    zmsg_addstrf(msg, "%" PRId64, self->streams_ended);
    zmsg_addstr(msg, text);
}

/* A worker that cannot be reached here is reported all the same, and replies wait for it, unless
 * another copy reaches it. */
void replog_tell_service(replog_t *self)
{
    state_message_t message = {self, zmsg_new()};

    zmsg_addstr(message.msg, bus_mono_ms() < self->settle_ms ? "settling" : "state");
    zmsg_addstrf(message.msg, "%" PRId64, self->covered);
    zmsg_addstrf(message.msg, "%d", roster_copies(self->roster));
    add_ended(self, message.msg);
    for (int i = 0; i < self->places.count; i++) {
        const place_t *place = &self->places.list[i];

        if (subscriber_is_live(&place->sub) && !is_told_elsewhere(self, place))
            zmsg_addstrf(message.msg, "%" PRId64, place->sub.acked);
    }
    if (places_somebody_is_turned_away(&self->places))
        zmsg_addstr(message.msg, "0");
    roster_each(self->roster, self->log_id, add_others_worker, &message);
    zmsg_send(&message.msg, self->pipe);
    self->changed = false;
}
