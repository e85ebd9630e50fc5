#include "services/events/store.h"
#include "common/cleanup.h"
#include "common/err.h"
#include "common/log.h"
#include "common/pack.h"
#include "common/pg.h"
#include "services/events/batch.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum { RETRY_MS = 200, JOB_MAX = 512 };

/* Count a batch under its producer's sequence. A batch that came before an older one is refused, not
 * stored: the producer sends both again, in order. 1 new | 0 seen before | ERR_BUSY too early | fault. */
static int note_batch(pg_t *pg, const batch_t *batch)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(pgresult_clear) PGresult *old = NULL;
    char seq[24], count[24], dropped[24];
    int r;

    snprintf(seq, sizeof(seq), "%" PRId64, batch->seq);
    snprintf(count, sizeof(count), "%" PRId64, batch->count);
    snprintf(dropped, sizeof(dropped), "%" PRId64, batch->dropped);
    r = pg_exec(pg, &res,
                "INSERT INTO producer AS p (name, last_seq, events, dropped, lost) "
                "VALUES ($1, $2::bigint, $3::bigint, $4::bigint, "
                "        greatest(0, $2::bigint - $3::bigint - $4::bigint)) "
                "ON CONFLICT (name) DO UPDATE SET last_seq = EXCLUDED.last_seq, "
                "events = p.events + EXCLUDED.events, dropped = p.dropped + EXCLUDED.dropped, "
                "at = now() "
                "WHERE p.last_seq = EXCLUDED.last_seq - EXCLUDED.events - EXCLUDED.dropped "
                "RETURNING 1",
                4, batch->producer, seq, count, dropped);
    if (r || PQntuples(res) > 0)
        return r ? r : 1;
    r = pg_exec(pg, &old, "SELECT last_seq >= $2::bigint FROM producer WHERE name = $1", 2,
                batch->producer, seq);
    if (r)
        return r;
    return strcmp(PQgetvalue(old, 0, 0), "t") == 0 ? 0 : ERR_BUSY;
}

/* 1: at least one event is new | 0: all were here before | fault. */
static int store_audit(pg_t *pg, zframe_t *body)
{
    event_view_t view;
    size_t offset = 0;
    int fresh = 0, r;

    while (batch_next(zframe_data(body), zframe_size(body), &offset, &view) == 1) {
        _cleanup_(json_clear_ref) json_t *event = NULL;
        _cleanup_(pgresult_clear) PGresult *res = NULL;
        _cleanup_(free_mem) char *text = NULL;

        if (unpack_json(view.body, view.body_len, &event))
            return -EBADMSG;
        text = json_dumps(event, JSON_COMPACT);
        r = pg_exec(pg, &res,
                    "INSERT INTO log (event_id, event_type, account_id, event) "
                    "SELECT e->>'event_id', e->>'event_type', e->>'account_id', e "
                    "FROM (SELECT $1::jsonb AS e) x ON CONFLICT DO NOTHING RETURNING 1",
                    1, text);
        if (r)
            return r;
        fresh |= PQntuples(res) > 0;
    }
    return fresh;
}

static const char *store_batch(pg_t *pg, zframe_t *header, zframe_t *body, int *ret_fault)
{
    batch_t batch;
    int r;

    if (batch_header(zframe_data(header), zframe_size(header), &batch)
        || batch_check(zframe_data(body), zframe_size(body), batch.count))
        return "bad";
    r = batch.audit ? store_audit(pg, body) : note_batch(pg, &batch);
    if (r < 0)
        *ret_fault = r;
    return r == ERR_BUSY ? "early" : r > 0 ? "new" : "old";
}

/* All batches of the job in one transaction; verdicts[i] for the i-th. When a commit's answer was
 * lost, *unsure is set: then "seen before" may be our own doing, and such batches count as new, so
 * that subscribers hear of them at least once. 0 | fault. */
static int store_job(pg_t *pg, zframe_t **frames, int batches, const char **verdicts, bool *unsure)
{
    int r = pg_ready(pg);

    if (!r)
        r = pg_script(pg, "BEGIN");
    for (int i = 0; !r && i < batches; i++) {
        verdicts[i] = store_batch(pg, frames[3 * i + 1], frames[3 * i + 2], &r);
        if (*unsure && !strcmp(verdicts[i], "old"))
            verdicts[i] = "new";
    }
    if (!r) {
        r = pg_script(pg, "COMMIT");
        *unsure |= r != 0;
        return r;
    }
    if (pg_socket(pg) >= 0)
        pg_script(pg, "ROLLBACK");
    return r;
}

/* 0: stored and answered | 1: told to stop before it could be stored. */
static int do_job(zsock_t *pipe, pg_t *pg, zmsg_t *job)
{
    zframe_t *frames[3 * JOB_MAX];
    const char *verdicts[JOB_MAX];
    bool unsure = false;
    int batches = 0, r;
    zmsg_t *out = zmsg_new();

    while (zmsg_size(job) >= 3 && batches < JOB_MAX) {
        for (int i = 0; i < 3; i++)
            frames[3 * batches + i] = zmsg_pop(job);
        batches++;
    }
    while ((r = store_job(pg, frames, batches, verdicts, &unsure)) && !zsys_interrupted) {
        log_warn("events wait for the database: %s", fault_text());
        usleep(RETRY_MS * 1000);
    }
    for (int i = 0; i < batches; i++) {
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
    while (!r && (r = pg_migrate(pg, args->migrations)) == PG_DOWN && !zsys_interrupted) {
        usleep(RETRY_MS * 1000);
        r = 0;
    }
    if (r)
        log_error("cannot migrate the events schema: %s", fault_text());
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
