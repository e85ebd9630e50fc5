/* session.touch, sign_in.tidy: sessions in use, and over. */
#include "common/base/cleanup.h"
#include "services/identity/session_gone.h"
#include "services/identity/session_tokens.h"
#include "services/identity/sign_in.h"
#include "services/identity/user_room.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TOUCHED_MAX = 512,
    CODES_STEP = 1000,
    LATE_MS = 600000 /* edges may know of activity that they have not told yet */
};

/* ---- touch ---- */

static int check_touched(const json_t *sessions, problem_t *problem)
{
    json_t *one;
    size_t i;

    if (!json_is_array(sessions) || json_array_size(sessions) > TOUCHED_MAX)
        return problem_add(problem, ERR_INVALID_FIELD, "sessions",
                           "must be a list of at most %d sessions", TOUCHED_MAX);
    json_array_foreach(sessions, i, one)
    {
        if (!words_is_hex(json_string_value(json_object_get(one, "hash")))
            || !json_is_integer(json_object_get(one, "last_active_ms")))
            return problem_add(
                problem, ERR_INVALID_FIELD, "sessions",
                "each must be {hash: 64 hexadecimal digits, last_active_ms: number}");
    }
    return 0;
}

int on_session_touch(crud_t *crud, const request_t *request, reply_t *reply)
{
    const json_t *sessions = json_object_get(request->body, "sessions");
    _cleanup_(free_mem) char *text = NULL;
    int r = check_touched(sessions, &reply->problem);
    char now[24];

    if (r)
        return r;
    text = json_dumps(sessions, JSON_COMPACT);
    reply->body = json_object();
    if (!text || !reply->body)
        return -ENOMEM;
    snprintf(now, sizeof(now), "%" PRId64, bus_now_ms());
    /* Rows are locked in the order of session.h, sessions and users each in that of their ids:
     * edges touch the same ones at once. What moves on by less than a second changes nothing that
     * anybody reads. */
    return pg_exec(
        crud->pg, NULL,
        "WITH given AS (SELECT e->>'hash' AS hash, "
        "     least(max((e->>'last_active_ms')::bigint), $2::bigint) AS ms "
        "     FROM jsonb_array_elements($1::jsonb) e GROUP BY 1), "
        "mine AS MATERIALIZED (SELECT s.session_id, g.ms FROM given g "
        "     JOIN application_session a ON a.token_hash = g.hash "
        "     JOIN sign_in_session s ON s.session_id = a.id AND g.ms > s.last_active_ms "
        "     ORDER BY s.session_id FOR UPDATE OF a, s), "
        "kept AS (UPDATE sign_in_session s SET last_active_ms = m.ms FROM mine m "
        "     WHERE s.session_id = m.session_id), "
        "shown AS (UPDATE application_session a SET last_active = "
        "     greatest(a.last_active, date_trunc('second', to_timestamp(m.ms / 1000.0))) "
        "     FROM mine m WHERE a.id = m.session_id RETURNING a.application_user_id, "
        "     a.last_active), "
        "users AS MATERIALIZED (SELECT u.id, s.last FROM application_user u "
        "     JOIN (SELECT application_user_id AS id, max(last_active) AS last FROM shown GROUP BY "
        "     1) s ON s.id = u.id AND s.last > u.last_active ORDER BY u.id FOR NO KEY UPDATE OF u) "
        "UPDATE application_user u SET last_active = users.last FROM users "
        "WHERE u.id = users.id AND u.last_active < users.last",
        2, text, now);
}

/* ---- tidy ---- */

/* Delete codes that are over until there are none, in steps: callbacks may come faster than any one
 * step of a period would delete them. */
static int tidy_codes(crud_t *crud, int64_t *ret_count)
{
    int64_t step = CODES_STEP;
    char limit[16];
    int r = 0;

    snprintf(limit, sizeof(limit), "%d", CODES_STEP);
    for (*ret_count = 0; !r && step == CODES_STEP; *ret_count += step) {
        _cleanup_(pgresult_clear) PGresult *res = NULL;

        r = pg_exec(crud->pg, &res,
                    "WITH codes AS (DELETE FROM sign_in_code WHERE code_hash IN (SELECT code_hash "
                    "FROM sign_in_code WHERE expires_at < now() LIMIT $1::int) RETURNING 1) "
                    "SELECT count(*) FROM codes",
                    1, limit);
        step = r ? 0 : strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    }
    return r;
}

/* The last part, which may wait. */
static int tidy_gone(crud_t *crud, int64_t codes, int64_t sessions, reply_t *reply)
{
    int64_t gone = 0;
    int r = session_gone_tidy(crud, reply, &gone);

    if (r)
        return r;
    reply->body = json_pack("{s:I, s:I, s:I}", "codes", (json_int_t)codes, "sessions",
                            (json_int_t)sessions, "gone", (json_int_t)gone);
    return reply->body ? 0 : -ENOMEM;
}

int on_sign_in_tidy(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    const wait_answer_t *came;
    int64_t codes = 0;
    char now[24];
    int r;

    if (crud_resumed(crud, &came))
        return tidy_gone(crud, 0, 0, reply);
    (void)request;
    r = session_tokens_write(crud);
    if (!r)
        r = tidy_codes(crud, &codes);
    if (!r)
        r = user_room_tidy(crud, reply);
    if (r)
        return r;
    snprintf(now, sizeof(now), "%" PRId64, bus_now_ms() - LATE_MS);
    r = pg_exec(
        crud->pg, &res,
        "WITH over AS (SELECT session_id FROM sign_in_session WHERE expires_ms <= $1::bigint "
        "     UNION SELECT session_id FROM sign_in_session WHERE inactivity_ms > 0 "
        "     AND last_active_ms + inactivity_ms <= $1::bigint LIMIT 1000), "
        "sessions AS (DELETE FROM object WHERE id IN (SELECT o.id FROM object o "
        "     JOIN application_session a ON a.id = o.id WHERE o.id IN (SELECT session_id FROM "
        "over) "
        "     FOR UPDATE OF a, o SKIP LOCKED) RETURNING 1) "
        "SELECT count(*) FROM sessions",
        1, now);
    return r ? r : tidy_gone(crud, codes, strtoll(PQgetvalue(res, 0, 0), NULL, 10), reply);
}
