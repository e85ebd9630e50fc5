#include "services/identity/session_turn.h"
#include "common/base/cleanup.h"

#include <inttypes.h>
#include <stdio.h>

enum { RETRY_MS = 5000 };

/* PostgreSQL's clock, which all copies share: theirs need not agree. */
#define NOW_MS "(extract(epoch FROM clock_timestamp()) * 1000)::bigint"

int session_turn_take(crud_t *crud, const session_t *session, run_t *run)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int64_t left = crud->request->deadline_ms - bus_mono_ms();
    char left_text[24], checked[24];
    int r;

    snprintf(left_text, sizeof(left_text), "%" PRId64, left > 0 ? left : 0);
    snprintf(checked, sizeof(checked), "%" PRId64, session->checked_ms);
    crud->changes = true;
    r = pg_exec(crud->pg, &res,
                "UPDATE sign_in_session SET checking_until_ms = " NOW_MS " + $2::bigint "
                "WHERE session_id = $1 AND checking_until_ms <= " NOW_MS
                " AND checked_ms = $3::bigint "
                "AND encode(sha256(convert_to(tokens, 'UTF8')), 'hex') = $4 "
                "RETURNING checking_until_ms",
                4, session->id, left_text, checked, session->tokens_hash);
    if (r || !PQntuples(res))
        return r;
    snprintf(run->session, sizeof(run->session), "%s", session->id);
    snprintf(run->turn, sizeof(run->turn), "%s", PQgetvalue(res, 0, 0));
    return 0;
}

void session_turn_over(run_t *run)
{
    *run->turn = '\0';
}

/* The turn may be somebody else's by now, where this call was late. */
static const char *turn_of(const run_t *run)
{
    return *run->turn ? run->turn : "-1";
}

int session_turn_put_off(crud_t *crud, run_t *run)
{
    char wait[24];
    int r;

    snprintf(wait, sizeof(wait), "%d", RETRY_MS);
    crud->changes = true;
    r = pg_exec(crud->pg, NULL,
                "UPDATE sign_in_session SET checking_until_ms = 0, retry_ms = " NOW_MS
                " + $2::bigint WHERE session_id = $1 AND checking_until_ms = $3::bigint",
                3, run->session, wait, turn_of(run));
    if (!r)
        session_turn_over(run);
    return r;
}

int session_turn_give_back(crud_t *crud, run_t *run, bool is_doubted, int outcome)
{
    int r;

    crud->changes = true;
    r = pg_exec(crud->pg, NULL,
                "UPDATE sign_in_session SET "
                "checking_until_ms = CASE WHEN checking_until_ms = $3::bigint THEN 0 "
                "     ELSE checking_until_ms END, source = CASE WHEN $2::boolean THEN '' ELSE "
                "source END WHERE session_id = $1",
                3, run->session, is_doubted ? "t" : "f", turn_of(run));
    if (!r)
        session_turn_over(run);
    return r ? r : outcome;
}
