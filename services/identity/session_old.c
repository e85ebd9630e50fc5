/* Sessions that give way to a sign-in: those that its browser had, and the user's oldest, where he
 * has as many as he may have. */
#include "common/base/cleanup.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <stdio.h>

enum {
    SHOWN_MAX = 4,  /* sessions that a browser had */
    OLDEST_MAX = 32 /* sessions of a user that one sign-in ends */
};

/* SHA-256 of the cookies' values. */
typedef struct shown {
    char hashes[SHOWN_MAX][WORDS_HEX_SIZE];
    size_t count;
} shown_t;

static void add_shown(shown_t *self, const char *token)
{
    if (self->count < SHOWN_MAX && words_is_token(token, WORDS_TOKEN_LEN))
        words_hex(token, self->hashes[self->count++]);
}

/* cookies: a value, or several. */
static void set_shown(shown_t *self, const json_t *cookies)
{
    const json_t *each;
    size_t i;

    *self = (shown_t){0};
    if (json_is_string(cookies))
        add_shown(self, json_string_value(cookies));
    json_array_foreach(cookies, i, each)
    {
        add_shown(self, json_string_value(each));
    }
}

/* How many of the newest sessions of a user stay. */
static void set_room(char out[16])
{
    snprintf(out, 16, "%d", sign_in_user_sessions() - 1);
}

static json_t *hashes_of(const shown_t *shown)
{
    json_t *hashes = json_array();

    for (size_t i = 0; i < shown->count; i++)
        json_array_append_new(hashes, json_string(shown->hashes[i]));
    return hashes;
}

/* Nobody else signs in as the person meanwhile, so the oldest that session_end_oldest finds are
 * among these. Of whichever form the name is: who differs in that alone is hardly ever there. For
 * an array PostgreSQL never plans to read all sessions; and without the account it would read the
 * index of all of them for a user. */
int session_lock_old(crud_t *crud, const sealed_t *sealed, const person_t *person,
                     const json_t *cookies)
{
    _cleanup_(json_clear_ref) json_t *hashes = NULL;
    _cleanup_(free_mem) char *text = NULL;
    char room[16], most[16];
    shown_t shown;

    set_shown(&shown, cookies);
    hashes = hashes_of(&shown);
    text = hashes ? json_dumps(hashes, JSON_COMPACT) : NULL;
    if (!text)
        return -ENOMEM;
    set_room(room);
    snprintf(most, sizeof(most), "%d", OLDEST_MAX);
    return pg_defer(crud->pg,
                    "SELECT 1 FROM application_session WHERE id = ANY (ARRAY("
                    "SELECT o.id FROM application_user u CROSS JOIN LATERAL "
                    "     (SELECT id FROM application_session WHERE account_id = $1 "
                    "     AND application_user_id = u.id ORDER BY created_at DESC, id DESC "
                    "     OFFSET $5::int LIMIT $6::int) o WHERE u.account_id = $1 AND "
                    "u.provider_url = $2 AND u.provider_user_id = $3 "
                    "AND u.identity_provider->>'name' = $4 "
                    "UNION SELECT id FROM application_session WHERE account_id = $1 "
                    "AND edge_id = $7 AND token_hash = ANY (ARRAY("
                    "     SELECT jsonb_array_elements_text($8::jsonb))))) ORDER BY id FOR UPDATE",
                    8, sealed->account, person->provider_url, person->id, person->provider_name,
                    room, most, sealed->edge, text);
}

static int end_one(crud_t *crud, const sealed_t *sealed, const char *hash, problem_t *problem)
{
    _cleanup_(session_done) session_t session = {0};
    session_act_t act;
    int r = session_load(crud, hash, &session);

    if (r || !session_is_beside(&session, sealed))
        return r == ERR_SESSION_GONE ? 0 : r;
    session_act_as(&act, crud, session.account, session.user, person_vouched_email(&session.person),
                   "SIGN_IN");
    r = session_end(crud, &session, problem);
    session_act_done(&act);
    return r == ERR_SESSION_GONE ? 0 : r;
}

int session_end_old(crud_t *crud, const sealed_t *sealed, const json_t *cookies, problem_t *problem)
{
    shown_t shown;
    int r = 0;

    set_shown(&shown, cookies);
    for (size_t i = 0; !r && i < shown.count; i++)
        r = end_one(crud, sealed, shown.hashes[i], problem);
    return r;
}

int session_end_oldest(crud_t *crud, const char *user, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char room[16], most[16];
    int r;

    set_room(room);
    snprintf(most, sizeof(most), "%d", OLDEST_MAX);
    r = pg_exec(crud->pg, &res,
                "SELECT id FROM application_session WHERE application_user_id = $1 "
                "ORDER BY created_at DESC, id DESC OFFSET $2::int LIMIT $3::int",
                3, user, room, most);
    for (int i = 0; !r && i < PQntuples(res); i++) {
        r = crud_remove(crud, kind_find("application_session"), PQgetvalue(res, i, 0), problem);
        if (r == ERR_NOT_FOUND)
            r = 0; /* another transaction has ended it */
    }
    return r;
}
