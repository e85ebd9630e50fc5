#include "services/events/store.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "common/codec/pack.h"
#include "common/store/pg.h"
#include "services/events/producers.h"
#include "services/events/sequence.h"
#include "services/events/topics.h"

#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { RETRY_MS = 200, JOB_MAX = 512, COMPLAIN_MS = 10000 };

/* Monotonic ms since when nothing could be stored; 0: storing works. Read by the reactor. */
static _Atomic int64_t failing_since;

int64_t store_failing_ms(void)
{
    int64_t since = failing_since;

    return since ? bus_mono_ms() - since : 0;
}

/* What becomes of each batch of a job. numbers: one for each event (topics.h). */
typedef struct fate {
    const char *verdict;
    int64_t *numbers;
} fate_t;

typedef struct job {
    zframe_t *frames[3 * JOB_MAX];
    batch_t batches[JOB_MAX];
    bool sound[JOB_MAX]; /* header and body can be read */
    fate_t fates[JOB_MAX];
    fate_t before
        /* stored by a commit whose answer was lost: found in the database it still counts as new */
        [JOB_MAX];
    char why[JOB_MAX][160]; /* why a batch is bad; "": it is not */
    int n;
    int begin, end; /* batches that are stored in one transaction: from begin to before end */
} job_t;

/* The producers of the batches of a job. */
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

/* Read and lock the rows of these producers. *ret_found: how many rows there are. */
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
    if (!r)
        r = producers_bound(pg, text);
    return r ? r : lock_producers(pg, self, text, &found);
}

/* Write the counts. They are what producers say, so sums end at BATCH_NUMBER_MAX and no statement
 * can fail on them. */
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
                   "UPDATE producer p SET last_seq = x.last, "
                   "events = least(p.events::numeric + x.events, 9007199254740992), "
                   "dropped = least(p.dropped::numeric + x.dropped, 9007199254740992), "
                   "lost = least(p.lost::numeric + x.lost, 9007199254740992), at = now() "
                   "FROM jsonb_to_recordset($1::jsonb) AS x(name text, last bigint, events bigint, "
                   "dropped bigint, lost bigint) WHERE p.name = x.name",
                   1, text);
}

/* Read and lock the rows of these topics: until the commit no other copy numbers their events.
 * *ret_found: how many rows there are. */
static int lock_topics(pg_t *pg, topics_t *self, const char *names, int *ret_found)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(pg, &res,
                    "SELECT name, last FROM topic WHERE name IN "
                    "(SELECT jsonb_array_elements_text($1::jsonb)) ORDER BY name FOR UPDATE",
                    1, names);

    *ret_found = r ? 0 : PQntuples(res);
    for (int i = 0; i < *ret_found; i++) {
        const char *name = PQgetvalue(res, i, 0);
        topic_t *topic = topics_find(self, name, strlen(name));

        if (topic)
            topic->last = strtoll(PQgetvalue(res, i, 1), NULL, 10);
    }
    return r;
}

static int load_topics(pg_t *pg, topics_t *self)
{
    _cleanup_(json_clear_ref) json_t *names = json_array();
    _cleanup_(free_mem) char *text = NULL;
    int r, found;

    if (!self->n)
        return 0;
    for (int i = 0; i < self->n; i++)
        json_array_append_new(names, json_string(self->all[i].name));
    text = json_dumps(names, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    r = lock_topics(pg, self, text, &found);
    if (r || found == self->n)
        return r;
    r = pg_exec(
        pg, NULL,
        "INSERT INTO topic (name, last) SELECT name, 0 FROM jsonb_array_elements_text($1::jsonb) "
        "x (name) ORDER BY name ON CONFLICT DO NOTHING",
        1, text);
    return r ? r : lock_topics(pg, self, text, &found);
}

static int save_topics(pg_t *pg, const topics_t *self)
{
    _cleanup_(json_clear_ref) json_t *rows = json_object();
    _cleanup_(free_mem) char *text = NULL;

    if (!self->n)
        return 0;
    for (int i = 0; i < self->n; i++)
        json_object_set_new(rows, self->all[i].name, json_integer(self->all[i].last));
    text = json_dumps(rows, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    return pg_exec(pg, NULL,
                   "UPDATE topic t SET last = x.value::bigint FROM jsonb_each_text($1::jsonb) x "
                   "WHERE t.name = x.key AND t.last < x.value::bigint",
                   1, text);
}

/* Which of these events are in the log already; their ids are the keys of *ret_known. */
static int find_known(pg_t *pg, const json_t *events, json_t **ret_known)
{
    _cleanup_(json_clear_ref) json_t *ids = json_array();
    _cleanup_(json_clear_ref) json_t *known = json_object();
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *text = NULL;
    const json_t *event;
    size_t i;
    int r;

    json_array_foreach(events, i, event) json_array_append(ids, json_object_get(event, "event_id"));
    text = json_dumps(ids, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    r = pg_exec(pg, &res,
                "SELECT event_id FROM log WHERE event_id IN "
                "(SELECT jsonb_array_elements_text($1::jsonb))",
                1, text);
    for (int row = 0; !r && row < PQntuples(res); row++)
        json_object_set_new(known, PQgetvalue(res, row, 0), json_true());
    if (!r)
        *ret_known = take(known);
    return r;
}

/* Insert the events that have a number or are published without one. */
static int insert_events(pg_t *pg, const json_t *events, const int64_t *numbers)
{
    _cleanup_(json_clear_ref) json_t *rows = json_array();
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *text = NULL;
    json_t *event;
    size_t i;
    int r;

    json_array_foreach(events, i, event)
    {
        if (numbers[i] != NUMBER_NOT_PUBLISHED)
            json_array_append_new(
                rows, json_pack("{s:O, s:o}", "e", event, "n",
                                numbers[i] > 0 ? json_integer(numbers[i]) : json_null()));
    }
    if (!json_array_size(rows))
        return 0;
    text = json_dumps(rows, JSON_COMPACT);
    if (!text)
        return -ENOMEM;
    r = pg_exec(pg, &res,
                "INSERT INTO log (event_id, event_type, account_id, event, number) "
                "SELECT r->'e'->>'event_id', r->'e'->>'event_type', r->'e'->>'account_id', r->'e', "
                "(r->>'n')::bigint "
                "FROM jsonb_array_elements($1::jsonb) WITH ORDINALITY x (r, i) ORDER BY i "
                "ON CONFLICT DO NOTHING RETURNING 1",
                1, text);
    /* Fewer rows: another copy inserted an event first that no topic's lock guards. Try again with
     * what is there now. */
    return r ? r : PQntuples(res) == (int)json_array_size(rows) ? 0 : PG_AGAIN;
}

/* Store an audit batch. An event is new once, whoever sends it and in whatever batch: two copies of
 * a service may both send what they find in their outbox. 0 | -EBADMSG: an event cannot be read,
 * and none is stored | fault. */
static int store_audit(pg_t *pg, topics_t *topics, const batch_t *batch, zframe_t *body,
                       const fate_t *before, fate_t *fate)
{
    _cleanup_(json_clear_ref) json_t *events = NULL;
    _cleanup_(json_clear_ref) json_t *known = NULL;
    const unsigned char *data = zframe_data(body);
    json_t *event;
    size_t i;
    int r = batch_audit(batch, data, zframe_size(body), &events);

    if (!r)
        r = find_known(pg, events, &known);
    if (r)
        return r;
    json_array_foreach(events, i, event)
    {
        const char *id = json_string_value(json_object_get(event, "event_id"));

        fate->numbers[i] = json_object_get(known, id) ? NUMBER_NOT_PUBLISHED : NUMBER_NONE;
        json_object_set_new(known, id, json_true());
    }
    topics_number(topics, data, zframe_size(body), fate->numbers);
    r = insert_events(pg, events, fate->numbers);
    fate->verdict = "old";
    for (i = 0; i < json_array_size(events); i++) {
        if (fate->numbers[i] == NUMBER_NOT_PUBLISHED && before->numbers)
            fate->numbers[i] = before->numbers[i];
        if (fate->numbers[i] != NUMBER_NOT_PUBLISHED)
            fate->verdict = "new";
    }
    return r;
}

/* Count a traffic batch in its producer's sequence: is it new? */
static void take_traffic(producers_t *producers, const batch_t *batch, const fate_t *before,
                         fate_t *fate)
{
    static const char *const words[] = {"new", "old", "early"};
    sequence_t *one = find_producer(producers, batch->producer);
    char quoted[4 * sizeof(one->producer) + 8];
    int64_t lost = one->lost;
    int taken = sequence_take(one, batch);

    fate->verdict = words[taken];
    for (int64_t i = 0; i < batch->count; i++)
        fate->numbers[i] = taken == SEQUENCE_NEW ? NUMBER_NONE : NUMBER_NOT_PUBLISHED;
    if (taken == SEQUENCE_OLD && before->verdict && !strcmp(before->verdict, "new")) {
        fate->verdict = "new";
        memcpy(fate->numbers, before->numbers, sizeof(int64_t) * (size_t)batch->count);
    }
    if (one->lost > lost)
        log_warn(
            "%" PRId64 " events of \"%s\" before number %" PRId64 " never came", one->lost - lost,
            log_quote(one->producer, strlen(one->producer), quoted, sizeof(quoted)), batch->seq);
}

/* Can header and body of the batch be read? */
static bool is_sound(zframe_t *header, zframe_t *body, batch_t *ret_batch)
{
    return !batch_header(zframe_data(header), zframe_size(header), ret_batch)
           && !batch_check(zframe_data(body), zframe_size(body), ret_batch->count)
           && (ret_batch->audit || !batch_traffic(zframe_data(body), zframe_size(body)));
}

static bool is_numbered_now(const fate_t *fate)
{
    return fate->verdict && !strcmp(fate->verdict, "new") && fate->numbers[0] == NUMBER_NONE;
}

/* Mark a batch as bad: its producer is told, and does not send it for ever. */
static void refuse_batch(job_t *job, int i, const char *why)
{
    job->fates[i].verdict = "bad";
    snprintf(job->why[i], sizeof(job->why[i]), "%s", why);
}

/* Number the events. The rows of topics are locked last, because copies of this service wait for
 * each other there until the commit. */
static int number_batches(pg_t *pg, job_t *job)
{
    _cleanup_(free_mem) topics_t *topics = calloc(1, sizeof(*topics));
    int r;

    if (!topics)
        return -ENOMEM;
    for (int i = job->begin; i < job->end; i++)
        if (job->sound[i] && (job->batches[i].audit || is_numbered_now(&job->fates[i])))
            topics_gather(topics, zframe_data(job->frames[3 * i + 2]),
                          zframe_size(job->frames[3 * i + 2]));
    r = load_topics(pg, topics);
    for (int i = job->begin; !r && i < job->end; i++) {
        zframe_t *body = job->frames[3 * i + 2];

        if (!job->sound[i])
            continue;
        if (job->batches[i].audit) {
            r = store_audit(pg, topics, &job->batches[i], body, &job->before[i], &job->fates[i]);
            if (r == -EBADMSG) {
                refuse_batch(job, i, "cannot be decoded");
                r = 0;
            }
        } else if (is_numbered_now(&job->fates[i])) {
            topics_number(topics, zframe_data(body), zframe_size(body), job->fates[i].numbers);
        }
    }
    return r ? r : save_topics(pg, topics);
}

/* Store each batch of the range and note what became of it. 0 | fault. */
static int store_batches(pg_t *pg, job_t *job)
{
    _cleanup_(free_mem) producers_t *producers = calloc(1, sizeof(*producers));
    int r;

    if (!producers)
        return -ENOMEM;
    for (int i = job->begin; i < job->end; i++)
        if (job->sound[i] && !job->batches[i].audit)
            find_producer(producers, job->batches[i].producer);
    r = load_producers(pg, producers);
    for (int i = job->begin; !r && i < job->end; i++) {
        if (!job->sound[i])
            refuse_batch(job, i, "cannot be decoded");
        else if (!job->batches[i].audit)
            take_traffic(producers, &job->batches[i], &job->before[i], &job->fates[i]);
    }
    if (!r)
        r = number_batches(pg, job);
    return r ? r : save_producers(pg, producers);
}

static int clear_fates(job_t *job)
{
    for (int i = job->begin; i < job->end; i++) {
        size_t n = (size_t)job->batches[i].count;

        job->fates[i].verdict = NULL;
        if (!job->fates[i].numbers)
            job->fates[i].numbers = malloc(sizeof(int64_t) * (n ? n : 1));
        if (!job->fates[i].numbers)
            return -ENOMEM;
        memset(job->fates[i].numbers, 0, sizeof(int64_t) * (n ? n : 1));
    }
    return 0;
}

/* The answer to a commit was lost: the batches of this attempt may be stored, under the numbers
 * that it gave. */
static void remember_attempt(job_t *job)
{
    for (int i = job->begin; i < job->end; i++) {
        free(job->before[i].numbers);
        job->before[i] = job->fates[i];
        job->fates[i] = (fate_t){0};
    }
}

/* Store the batches of the range in one transaction. 0 | fault. */
static int store_once(pg_t *pg, job_t *job)
{
    int r = clear_fates(job);

    if (!r)
        r = pg_ready(pg);
    if (!r)
        r = pg_defer(pg, "BEGIN", 0);
    if (!r)
        r = store_batches(pg, job);
    if (r) {
        pg_rollback(pg);
        return r;
    }
    r = pg_commit(pg, NULL, NULL, 0);
    if (r)
        remember_attempt(job);
    return r;
}

/* Is this a fault of the database's state, that has nothing to do with what was to be stored? */
static bool is_passing(int r)
{
    return r == PG_DOWN || r == PG_FULL || r == PG_AGAIN || r == PG_TIMEOUT || r == -ENOMEM;
}

/* Can anything be stored now? If not, the fault of a batch says nothing about that batch. */
static bool can_store(pg_t *pg)
{
    int r = pg_ready(pg);

    if (!r)
        r = pg_defer(pg, "BEGIN", 0);
    if (!r)
        r = pg_exec(pg, NULL,
                    "INSERT INTO producer (name, last_seq, events) VALUES ('?', 0, 0) "
                    "ON CONFLICT (name) DO UPDATE SET at = now()",
                    0);
    if (!r)
        r = pg_exec(pg, NULL,
                    "INSERT INTO topic (name, last) VALUES ('?', 0) "
                    "ON CONFLICT (name) DO UPDATE SET last = topic.last",
                    0);
    if (!r)
        r = pg_exec(pg, NULL,
                    "INSERT INTO log (event_id, event_type, account_id, event) "
                    "VALUES ('?', '?', '?', '{}') ON CONFLICT DO NOTHING",
                    0);
    pg_rollback(pg);
    return r == 0;
}

static void note_failure(int64_t *complained_ms)
{
    int64_t now = bus_mono_ms();

    if (!failing_since)
        failing_since = now;
    if (!*complained_ms || now - *complained_ms >= COMPLAIN_MS) {
        *complained_ms = now;
        log_warn("events wait for the database: %s", fault_text());
    }
}

/* Store the range, trying again for as long as the database takes nothing at all. 0 | -EINTR: the
 * process ends | the fault of one of the batches, and then none of the range is stored. */
static int store_range(pg_t *pg, job_t *job, int begin, int end)
{
    int64_t complained_ms = 0;
    int r;

    job->begin = begin;
    job->end = end;
    while ((r = store_once(pg, job))) {
        if (zsys_interrupted)
            return -EINTR;
        if (!is_passing(r) && can_store(pg))
            return r;
        note_failure(&complained_ms);
        usleep(RETRY_MS * 1000);
    }
    failing_since = 0;
    return 0;
}

/* Store all batches in one transaction; if one of them cannot be stored, each in its own, so that
 * only its own producer is affected. */
static void store_job(pg_t *pg, job_t *job)
{
    int r = store_range(pg, job, 0, job->n);

    for (int i = 0; r && i < job->n; i++) {
        int one = r == -EINTR ? r : store_range(pg, job, i, i + 1);

        if (one == -EINTR) {
            r = one;
            job->fates[i].verdict = "stop";
        } else if (one) {
            char why[160];

            snprintf(why, sizeof(why), "cannot be stored: %s", fault_text());
            refuse_batch(job, i, why);
        }
    }
}

static void unpack_job(job_t *job, zmsg_t *msg)
{
    for (; zmsg_size(msg) >= 3 && job->n < JOB_MAX; job->n++) {
        zframe_t **frames = &job->frames[3 * job->n];
        batch_t *batch = &job->batches[job->n];

        for (int i = 0; i < 3; i++)
            frames[i] = zmsg_pop(msg);
        job->sound[job->n] = is_sound(frames[1], frames[2], batch);
        if (!job->sound[job->n])
            batch->count = 0; /* a bad batch counts no events, whatever its header says */
    }
}

/* Log a refused batch once, when its fate is certain. */
static void log_refused(const job_t *job, int i)
{
    const char *producer = job->batches[i].producer;
    char what[200];

    snprintf(what, sizeof(what), "sent a batch of events that %s", job->why[i]);
    peer_refused(SOCKET_INTAKE, *producer ? producer : "?", what);
}

static zmsg_t *pack_answer(job_t *job)
{
    zmsg_t *out = zmsg_new();

    for (int i = 0; i < job->n; i++) {
        const fate_t *fate = &job->fates[i];
        bool stop = !strcmp(fate->verdict, "stop"), bad = !strcmp(fate->verdict, "bad");

        if (bad)
            log_refused(job, i);
        for (int k = 0; k < 3; k++)
            zmsg_append(out, &job->frames[3 * i + k]);
        zmsg_addstr(out, fate->verdict);
        zmsg_addmem(out, fate->numbers,
                    stop || bad ? 0 : sizeof(int64_t) * (size_t)job->batches[i].count);
        free(job->fates[i].numbers);
        free(job->before[i].numbers);
    }
    return out;
}

static void do_job(zsock_t *pipe, pg_t *pg, zmsg_t *msg)
{
    job_t *job = memory_need(calloc(1, sizeof(*job)), "a job");
    zmsg_t *out;

    unpack_job(job, msg);
    store_job(pg, job);
    out = pack_answer(job);
    zmsg_send(&out, pipe);
    free(job);
}

/* Replace the noted subscribers of this PUB endpoint by ["listeners"][JSON: {prefix: how many}]. */
static void note_listeners(zsock_t *pipe, pg_t *pg, const char *pub, zmsg_t *msg)
{
    zframe_t *word = zmsg_pop(msg);
    _cleanup_(free_mem) char *listeners = zmsg_popstr(msg);
    int r = pg_ready(pg);

    zframe_destroy(&word);
    if (!r)
        r = pg_defer(pg, "BEGIN", 0);
    if (!r)
        r = pg_exec(pg, NULL, "DELETE FROM listener WHERE pub = $1", 1, pub);
    if (!r)
        r = pg_exec(pg, NULL,
                    "INSERT INTO listener (pub, prefix, n) "
                    "SELECT $1, key, value::int FROM jsonb_each_text($2::jsonb)",
                    2, pub, listeners);
    if (!r)
        r = pg_commit(pg, NULL, NULL, 0);
    else
        pg_rollback(pg);
    if (r)
        log_warn("cannot note who listens: %s", fault_text());
    zstr_send(pipe, r ? "again" : "noted");
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

        /* A command is one frame. A job has more, and begins with an identity, which a peer may
         * have chosen to be "$TERM". */
        if (!job || (zmsg_size(job) == 1 && zframe_streq(zmsg_first(job), "$TERM"))) {
            zmsg_destroy(&job);
            break;
        }
        if (zmsg_size(job) == 2)
            note_listeners(pipe, pg, args->pub, job);
        else
            do_job(pipe, pg, job);
        zmsg_destroy(&job);
    }
    pg_destroy(&pg);
}
