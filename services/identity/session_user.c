/* Rules of application_user; session_log.c has those of application_session. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"

#include <stdio.h>

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

KIND_RULES(application_user, .named = user_named);
