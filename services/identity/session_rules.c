/* Rules of application_user and application_session: whoever ends a session, edges hear of it
 * before that is answered. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"

#include <stdio.h>

/* Tell edges that the sessions of these rows are gone. */
static int publish_gone(crud_t *crud, const PGresult *res)
{
    int r = 0;

    for (int i = 0; !r && crud->config_log && i < PQntuples(res); i++)
        r = crud_publish(crud, "application_session", PQgetvalue(res, i, 0), NULL);
    return r;
}

static const char *id_of(const json_t *row)
{
    return json_string_value(json_object_get(row, "id"));
}

static int session_retire(crud_t *crud, const json_t *row, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT encode(token_hash, 'hex') FROM sign_in_session WHERE session_id = $1",
                    1, id_of(row));

    (void)problem;
    return r ? r : publish_gone(crud, res);
}

/* All of them at once: nobody makes another one, because the user's object is locked. */
static int user_retire(crud_t *crud, const json_t *row, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res,
                    "SELECT encode(s.token_hash, 'hex') FROM sign_in_session s "
                    "JOIN application_session a ON a.id = s.session_id "
                    "WHERE a.application_user_id = $1",
                    1, id_of(row));

    (void)problem;
    return r ? r : publish_gone(crud, res);
}

/* The id of a session stands for its user, as clients of this interface were told. */
static int user_named(crud_t *crud, const char *id, char out[ID_MAX])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    if (!id_check("app_sess", id))
        return ERR_ID_MALFORMED;
    r = pg_exec(crud->pg, &res,
                "SELECT coalesce(application_user_id, '') FROM application_session "
                "WHERE id = $1 AND account_id = $2",
                2, id, crud->request->account);
    if (r || !PQntuples(res))
        return r ? r : ERR_NOT_FOUND;
    snprintf(out, ID_MAX, "%s", PQgetvalue(res, 0, 0));
    return 0;
}

KIND_RULES(application_session, .retire = session_retire);
KIND_RULES(application_user, .retire = user_retire, .named = user_named);
