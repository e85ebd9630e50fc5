#include "services/events/event_log.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/events/producers.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum {
    EVENT_PAGE = 64,              /* events in one answer at most, */
    EVENT_PAGE_BYTES = 256 << 10, /* and of them as many as fit into so much, at least one */
    /* events counted for one answer, however large the range that was asked for */
    KEPT_MAX = 10000,
    TRIM_ROWS = 2000, /* rows deleted by one statement, which must not take long */
    /* statements of one run of event_log.trim; the rest is left to the next run */
    TRIM_TURNS = 5000,
    TYPE_MAX = 96
};

static const int64_t missed_max = INT64_C(1) << 40;

/* Added to by workers, read by the reactor. */
static atomic_uint_least64_t missed_total, deleted_total;

/* Settings, written before the first worker starts. */
static long keep_days, keep_events, keep_producers;

uint64_t event_log_missed(void)
{
    return missed_total;
}

uint64_t event_log_deleted(void)
{
    return deleted_total;
}

int event_log_setup(crud_t *crud, const config_t *config)
{
    (void)crud;
    keep_days = config_int(config, "event-log-days");
    keep_events = config_int(config, "event-log-events");
    keep_producers = config_int(config, "producer-days");
    return 0;
}

int on_event_heads(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *prefix = json_string_value(json_object_get(request->body, "prefix"));
    _cleanup_(json_clear_ref) json_t *heads = json_object();
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT name, last FROM topic WHERE starts_with(name, $1) AND last > 0", 1,
                    prefix ? prefix : "");

    for (int i = 0; !r && i < PQntuples(res); i++)
        json_object_set_new(heads, PQgetvalue(res, i, 0),
                            json_integer(strtoll(PQgetvalue(res, i, 1), NULL, 10)));
    if (!r)
        reply->body = json_pack("{s:O}", "heads", heads);
    return r || reply->body ? r : -ENOMEM;
}

static bool is_number(const json_t *body, const char *name, int64_t min, int64_t *ret_number)
{
    const json_t *value = json_object_get(body, name);

    *ret_number = json_integer_value(value);
    return json_is_integer(value) && *ret_number >= min;
}

static int read_range(pg_t *pg, const char *type, int64_t after, int64_t last, json_t **ret_events,
                      bool *ret_more)
{
    _cleanup_(json_clear_ref) json_t *events = json_array();
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char from[24], to[24], limit[16], bytes[16];
    int r;

    snprintf(from, sizeof(from), "%" PRId64, after);
    snprintf(to, sizeof(to), "%" PRId64, last);
    snprintf(limit, sizeof(limit), "%d", EVENT_PAGE);
    snprintf(bytes, sizeof(bytes), "%d", EVENT_PAGE_BYTES);
    r = pg_exec(pg, &res,
                "SELECT number, event, of FROM (SELECT number, event, count(*) OVER () AS of, "
                "sum(length) OVER (ORDER BY number) - length AS before "
                "FROM (SELECT number, event, octet_length(event::text) AS length FROM log "
                "WHERE event_type = $1 AND number > $2::bigint AND number <= $3::bigint "
                "ORDER BY number LIMIT $4::int) page) sized WHERE before < $5::bigint "
                "ORDER BY number",
                5, type, from, to, limit, bytes);
    for (int i = 0; !r && i < PQntuples(res); i++) {
        json_t *event = json_loads(PQgetvalue(res, i, 1), 0, NULL);

        json_object_set_new(event, "sequence",
                            json_integer(strtoll(PQgetvalue(res, i, 0), NULL, 10)));
        json_array_append_new(events, event);
    }
    *ret_more = !r && PQntuples(res)
                && (PQntuples(res) == EVENT_PAGE || PQntuples(res) < atoi(PQgetvalue(res, 0, 2)));
    *ret_events = r ? NULL : take(events);
    return r;
}

/* Count the events of a range, up to KEPT_MAX + 1, which means "more than KEPT_MAX". */
static int count_range(pg_t *pg, const char *type, int64_t first, int64_t last, int64_t *ret_kept)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char from[24], to[24], limit[16];
    int r;

    snprintf(from, sizeof(from), "%" PRId64, first);
    snprintf(to, sizeof(to), "%" PRId64, last);
    snprintf(limit, sizeof(limit), "%d", KEPT_MAX + 1);
    r = pg_exec(pg, &res,
                "SELECT count(*) FROM (SELECT FROM log WHERE event_type = $1 AND number BETWEEN "
                "$2::bigint AND $3::bigint LIMIT $4::int) kept",
                4, type, from, to, limit);
    *ret_kept = r ? 0 : strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    return r;
}

int on_event_missed(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *type = json_string_value(json_object_get(request->body, "type"));
    int64_t first, last, after, missed, kept;
    char quoted[4 * TYPE_MAX + 8];
    json_t *events = NULL;
    bool more;
    int r;

    if (!type || !*type || strlen(type) > TYPE_MAX)
        return problem_add(&reply->problem, ERR_INVALID_FIELD, "type", "must be an event type");
    if (!is_number(request->body, "first", 1, &first)
        || !is_number(request->body, "last", first, &last)
        || !is_number(request->body, "after", 0, &after)
        || !is_number(request->body, "missed", 0, &missed) || missed > missed_max)
        return problem_add(&reply->problem, ERR_INVALID_FIELD, "first",
                           "must be a number from 1, last one from first, after and missed ones "
                           "from 0");
    r = count_range(crud->pg, type, first, last, &kept);
    if (!r)
        r = read_range(crud->pg, type, after < first ? first - 1 : after, last, &events, &more);
    if (r)
        return r;
    missed_total += (uint64_t)missed;
    if (missed)
        log_info("a subscriber missed %" PRId64 " events of \"%s\" from number %" PRId64, missed,
                 log_quote(type, strlen(type), quoted, sizeof(quoted)), first);
    reply->body =
        json_pack("{s:I, s:b, s:o, s:b}", "kept", (json_int_t)(kept > KEPT_MAX ? KEPT_MAX : kept),
                  "beyond", kept > KEPT_MAX, "events", events, "more", more);
    return reply->body ? 0 : -ENOMEM;
}

/* Delete the oldest rows that the condition in sql selects, TRIM_ROWS a statement, until none is
 * left or TRIM_TURNS statements have run. */
static int trim_rows(pg_t *pg, const char *sql, const char *bound, int64_t *deleted)
{
    char rows[16];
    int r = 0, n = TRIM_ROWS;

    snprintf(rows, sizeof(rows), "%d", TRIM_ROWS);
    for (int turn = 0; !r && n == TRIM_ROWS && turn < TRIM_TURNS; turn++) {
        _cleanup_(pgresult_clear) PGresult *res = NULL;

        r = pg_exec(pg, &res, sql, 2, bound, rows);
        n = r ? 0 : atoi(PQcmdTuples(res));
        *deleted += n;
        deleted_total += (uint64_t)n;
    }
    return r;
}

/* The time of the oldest of the newest keep_events events; "" when there are no more than
 * keep_events. */
static int find_cutoff(pg_t *pg, char out[64])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char offset[24];
    int r;

    snprintf(offset, sizeof(offset), "%ld", keep_events - 1);
    r = pg_exec(pg, &res, "SELECT at FROM log ORDER BY at DESC OFFSET $1::bigint LIMIT 1", 1,
                offset);
    snprintf(out, 64, "%s", !r && PQntuples(res) ? PQgetvalue(res, 0, 0) : "");
    return r;
}

int on_event_log_trim(crud_t *crud, const request_t *request, reply_t *reply)
{
    char days[24], cutoff[64] = "";
    int64_t deleted = 0, producers = 0;
    int r = 0;

    (void)request;
    snprintf(days, sizeof(days), "%ld", keep_days);
    if (keep_days)
        r = trim_rows(
            crud->pg,
            "DELETE FROM log WHERE event_id IN (SELECT event_id FROM log WHERE at < now() - "
            "$1::bigint * interval '1 day' ORDER BY at LIMIT $2::int)",
            days, &deleted);
    if (!r && keep_events)
        r = find_cutoff(crud->pg, cutoff);
    if (!r && *cutoff)
        r = trim_rows(crud->pg,
                      "DELETE FROM log WHERE event_id IN (SELECT event_id FROM log WHERE at < "
                      "$1::timestamptz ORDER BY at LIMIT $2::int)",
                      cutoff, &deleted);
    if (!r)
        r = producers_forget(crud->pg, keep_producers, &producers);
    if (deleted)
        log_info("%" PRId64 " audit events were deleted from the log: it keeps %ld days and about "
                 "%ld events",
                 deleted, keep_days, keep_events);
    if (r)
        return r;
    reply->body =
        json_pack("{s:I, s:I}", "deleted", (json_int_t)deleted, "producers", (json_int_t)producers);
    return reply->body ? 0 : -ENOMEM;
}
