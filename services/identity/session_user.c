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

/* The person that a user of the request's account is, as session_person_hash, by any form of the
 * name or by the one that is known. 0 | ERR_NOT_FOUND: he is none, or there is no such user |
 * fault. */
static int hash_person(crud_t *crud, const char *user, bool by_form, char out[WORDS_HEX_SIZE])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    const char *account = crud->request->account;
    int r = pg_exec(crud->pg, &res,
                    "SELECT identity_provider->>'name', provider_url, provider_user_id, "
                    "coalesce(name_form, '') FROM application_user "
                    "WHERE id = $1 AND account_id = $2 AND provider_url IS NOT NULL",
                    2, user, account);

    if (r || !PQntuples(res))
        return r ? r : ERR_NOT_FOUND;
    session_person_hash(account,
                        &(person_t){.provider_name = PQgetvalue(res, 0, 0),
                                    .provider_url = PQgetvalue(res, 0, 1),
                                    .id = PQgetvalue(res, 0, 2),
                                    .name_form = by_form ? PQgetvalue(res, 0, 3) : NULL},
                        out);
    return 0;
}

/* The person comes before rows, and rows of his sessions before his own (session.h): there are no
 * more of them while he is locked. The form of his name can change until then; by whatever form
 * somebody signs in, he locks this one first. */
static int lock_first(crud_t *crud, const char *user)
{
    char hash[WORDS_HEX_SIZE];
    int r = hash_person(crud, user, false, hash);

    if (!r)
        r = session_lock_person(crud, hash);
    if (r == ERR_NOT_FOUND)
        r = 0;
    return r ? r
             : pg_defer(crud->pg,
                        "SELECT 1 FROM application_session "
                        "WHERE application_user_id = $1 AND account_id = $2 ORDER BY id FOR UPDATE",
                        2, user, crud->request->account);
}

/* With the user go his sessions, and where he is revoked, sign-ins that are not sessions yet: those
 * of all who have the name, where it is not known by which form of it he is. */
static int end_sign_ins(crud_t *crud, const json_t *row, problem_t *problem)
{
    char hash[WORDS_HEX_SIZE];
    int r;

    (void)problem;
    if (makes_room(crud))
        return 0;
    r = hash_person(crud, json_string_value(json_object_get(row, "id")), true, hash);
    if (r)
        return r == ERR_NOT_FOUND ? 0 : r;
    return session_end_person(crud, hash);
}

KIND_RULES(application_user, .named = user_named, .lock_first = lock_first, .retire = end_sign_ins);
