#include "services/events/store.h"
#include "common/cleanup.h"
#include "common/err.h"
#include "common/log.h"
#include "common/pack.h"
#include "common/pg.h"
#include "services/events/sequence.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_MS = 200, JOB_MAX = 512 };

/* The producers of one job. */
typedef struct producers {
    sequence_t all[JOB_MAX];
    int n;
} producers_t;

static sequence_t *find_producer(producers_t *self, const char *name)
{
    int i = 0;

    while (i < self->n && strcmp(self->all[i].producer, name))
        i++;
    if (i == self->n) {
        self->all[self->n++] = (sequence_t){0};
        snprintf(self->all[i].producer, sizeof(self->all[i].producer), "%s", name);
    }
    return &self->all[i];
}

/* Read and lock the rows of these producers. *ret_found: how many there are. */
static int lock_producers(pg_t *pg, producers_t *self, const char *names, int *ret_found)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(pg, &res,
                    "SELECT name, last_seq, events > 0 OR dropped > 0 FROM producer WHERE name IN "
                    "(SELECT jsonb_array_elements_text($1::jsonb)) ORDER BY name FOR UPDATE",
                    1, names);

    *ret_found = r ? 0 : PQntuples(res);
    for (int i = 0; i < *ret_found; i++) {
        sequence_t *one = find_producer(self, PQgetvalue(res, i, 0));

        one->last = strtoll(PQgetvalue(res, i, 1), NULL, 10);
        one->known = *PQgetvalue(res, i, 2) == 't';
    }
    return r;
}

static int load_producers(pg_t *pg, producers_t *self)
{
    _cleanup_(json_clear_ref) json_t *names = json_array();
    _cleanup_(free_mem) char *text = NULL;
    int r, found;

    if (!self->n)
        return 0;
    for (int i = 0; i < self->n; i++)
        json_array_append_new(names, json_string(self->all[i].producer));
    text = json_dumps(names, JSON_COMPACT);
    r = lock_producers(pg, self, text, &found);
    if (r || found == self->n)
        return r;
    r = pg_exec(pg, NULL,
                "INSERT INTO producer (name, last_seq, events) "
                "SELECT jsonb_array_elements_text($1::jsonb), 0, 0 ON CONFLICT DO NOTHING",
                1, text);
    return r ? r : lock_producers(pg, self, text, &found);
}

static int save_producers(pg_t *pg, const producers_t *self)
{
    _cleanup_(json_clear_ref) json_t *rows = json_array();
    _cleanup_(free_mem) char *text = NULL;

    for (int i = 0; i < self->n; i++) {
        const sequence_t *one = &self->all[i];

        if (one->events || one->dropped)
            json_array_append_new(
                rows, json_pack("{s:s, s:I, s:I, s:I, s:I}", "name", one->producer, "last",
                                (json_int_t)one->last, "events", (json_int_t)one->events, "dropped",
                                (json_int_t)one->dropped, "lost", (json_int_t)one->lost));
    }
    if (!json_array_size(rows))
        return 0;
    text = json_dumps(rows, JSON_COMPACT);
    return pg_exec(pg, NULL,
                   "UPDATE producer p SET last_seq = x.last, events = p.events + x.events, "
                   "dropped = p.dropped + x.dropped, lost = p.lost + x.lost, at = now() "
                   "FROM jsonb_to_recordset($1::jsonb) AS x(name text, last bigint, events bigint, "
                   "dropped bigint, lost bigint) WHERE p.name = x.name",
                   1, text);
}

/* 1: at least one event is new | 0: all were here before | -EBADMSG: one cannot be read, none is stored | fault. */
static int store_audit(pg_t *pg, zframe_t *body)
{
    _cleanup_(json_clear_ref) json_t *events = NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *text = NULL;
    int r = batch_audit(zframe_data(body), zframe_size(body), &events);

    if (r)
        return r;
    text = json_dumps(events, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    r = pg_exec(pg, &res,
                "INSERT INTO log (event_id, event_type, account_id, event) "
                "SELECT e->>'event_id', e->>'event_type', e->>'account_id', e "
                "FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY x (e, n) ORDER BY n "
                "ON CONFLICT DO NOTHING RETURNING 1",
                1, text);
    return r ? r : PQntuples(res) > 0;
}

/* Header and body of a batch can be trusted. */
static bool is_sound(zframe_t *header, zframe_t *body, batch_t *ret_batch)
{
    return !batch_header(zframe_data(header), zframe_size(header), ret_batch)
           && !batch_check(zframe_data(body), zframe_size(body), ret_batch->count);
}

/* What became of each batch, in the words of on_stored. 0 | fault. */
static int store_batches(pg_t *pg, zframe_t **frames, const batch_t *batches, int n,
                         const char **verdicts)
{
    static const char *const words[] = {"new", "old", "early"};
    _cleanup_(free_mem) producers_t *producers = calloc(1, sizeof(*producers));
    int r;

    if (!producers)
        return -ENOMEM;
    for (int i = 0; i < n; i++)
        if (*batches[i].producer && !batches[i].audit)
            find_producer(producers, batches[i].producer);
    r = load_producers(pg, producers);
    for (int i = 0; !r && i < n; i++) {
        if (!*batches[i].producer) {
            verdicts[i] = "bad";
        } else if (batches[i].audit) {
            r = store_audit(pg, frames[3 * i + 2]);
            verdicts[i] = r == -EBADMSG ? "bad" : r ? "new" : "old";
            r = r == 1 || r == -EBADMSG ? 0 : r;
        } else {
            sequence_t *one = find_producer(producers, batches[i].producer);
            int64_t lost = one->lost;

            verdicts[i] = words[sequence_take(one, &batches[i])];
            if (one->lost > lost)
                log_warn("%" PRId64 " events of %s before number %" PRId64 " never came",
                         one->lost - lost, one->producer, batches[i].seq);
        }
    }
    return r ? r : save_producers(pg, producers);
}

/* All batches of the job in one transaction; verdicts[i] for the i-th. When a commit's answer was
 * lost, *unsure is set: then "seen before" may be our own doing, and such batches count as new, so
 * that subscribers hear of them at least once. 0 | fault. */
static int store_job(pg_t *pg, zframe_t **frames, const batch_t *batches, int n,
                     const char **verdicts, bool *unsure)
{
    int r = pg_ready(pg);

    if (!r)
        r = pg_defer(pg, "BEGIN", 0);
    if (!r)
        r = store_batches(pg, frames, batches, n, verdicts);
    for (int i = 0; !r && *unsure && i < n; i++)
        if (!strcmp(verdicts[i], "old"))
            verdicts[i] = "new";
    if (!r) {
        r = pg_commit(pg, NULL, NULL, 0);
        *unsure |= r != 0;
        return r;
    }
    pg_rollback(pg);
    return r;
}

/* 0: stored and answered | 1: told to stop before it could be stored. */
static int do_job(zsock_t *pipe, pg_t *pg, zmsg_t *job)
{
    zframe_t *frames[3 * JOB_MAX];
    batch_t batches[JOB_MAX];
    const char *verdicts[JOB_MAX];
    bool unsure = false;
    int n = 0, r;
    zmsg_t *out = zmsg_new();

    while (zmsg_size(job) >= 3 && n < JOB_MAX) {
        for (int i = 0; i < 3; i++)
            frames[3 * n + i] = zmsg_pop(job);
        if (!is_sound(frames[3 * n + 1], frames[3 * n + 2], &batches[n]))
            *batches[n].producer = '\0';
        n++;
    }
    while ((r = store_job(pg, frames, batches, n, verdicts, &unsure)) && !zsys_interrupted) {
        log_warn("events wait for the database: %s", fault_text());
        usleep(RETRY_MS * 1000);
    }
    for (int i = 0; i < n; i++) {
        for (int k = 0; k < 3; k++)
            zmsg_append(out, &frames[3 * i + k]);
        zmsg_addstr(out, r ? "stop" : verdicts[i]);
    }
    zmsg_send(&out, pipe);
    return r ? 1 : 0;
}

void store_actor(zsock_t *pipe, void *context)
{
    const store_args_t *args = context;
    pg_t *pg = NULL;
    int r;

    r = pg_new(&pg, args->database_url, "events");
    zsock_signal(pipe, 0);
    if (r)
        log_error("cannot start the event store: %s", fault_text());
    while (!zsys_interrupted) {
        zmsg_t *job = zmsg_recv(pipe);

        if (!job || zframe_streq(zmsg_first(job), "$TERM")) {
            zmsg_destroy(&job);
            break;
        }
        do_job(pipe, pg, job);
        zmsg_destroy(&job);
    }
    pg_destroy(&pg);
}
