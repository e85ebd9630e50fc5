/* What edges are told of sessions: that one is gone, whoever deleted it, by the hash that their
 * clients' cookies have. Nothing else of a session is in the log. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"

/* A session that was never given to a browser has no hash, and no edge knows it. */
static int session_gone(crud_t *crud, const json_t *row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT token_hash FROM application_session "
                    "WHERE id = $1 AND token_hash IS NOT NULL",
                    1, json_string_value(json_object_get(row, "id")));

    if (r || PQntuples(res) == 0)
        return r;
    return crud_publish(crud, "application_session", PQgetvalue(res, 0, 0), NULL);
}

KIND_RULES(application_session, .gone = session_gone);
