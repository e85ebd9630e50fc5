/* Rules of application_user; session_log.c has those of application_session. */
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "services/identity/session.h"

#include <stdio.h>
#include <string.h>

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

/* Does he only make room? Nobody has revoked him, and who signs in meanwhile is a new user. */
static bool makes_room(const crud_t *crud)
{
    const char *source = json_string_value(json_object_get(crud->request->actor, "source"));

    return source && !strcmp(source, SESSION_IDLE);
}

/* With the user go his sessions, and where he is revoked, sign-ins that are not sessions yet: those
 * of all who have the name, where it is not known by which form of it he is. */
static int end_sign_ins(crud_t *crud, const json_t *row, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char hash[WORDS_HEX_SIZE];
    int r;

    (void)problem;
    if (makes_room(crud))
        return 0;
    r = pg_exec(
        crud->pg, &res,
        "SELECT account_id, identity_provider->>'name', provider_url, provider_user_id, "
        "coalesce(name_form, '') FROM application_user WHERE id = $1 AND provider_url IS NOT NULL",
        1, json_string_value(json_object_get(row, "id")));
    if (r || !PQntuples(res))
        return r;
    session_person_hash(PQgetvalue(res, 0, 0),
                        &(person_t){.provider_name = PQgetvalue(res, 0, 1),
                                    .provider_url = PQgetvalue(res, 0, 2),
                                    .id = PQgetvalue(res, 0, 3),
                                    .name_form = PQgetvalue(res, 0, 4)},
                        hash);
    return session_end_person(crud, hash);
}

KIND_RULES(application_user, .named = user_named, .retire = end_sign_ins);
