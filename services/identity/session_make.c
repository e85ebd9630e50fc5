/* Sessions and their users come, change and go: in the transactions of their callers. */
#include "common/base/cleanup.h"
#include "services/identity/browser.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char *or_empty(const char *text)
{
    return text ? text : "";
}

/* ---- users ---- */

/* The row of somebody who signs in here for the first time. */
static json_t *new_user(const char *id, const person_t *person, const char *now)
{
    return json_pack("{s:s, s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "id", id,
                     "identity_provider", "name", person->provider_name, "url",
                     person->provider_url, "provider_url", person->provider_url, "provider_user_id",
                     person->id, "username", or_empty(person->username), "email",
                     or_empty(person->email), "name", or_empty(person->name), "last_active", now,
                     "last_login", now);
}

/* How the person is described now. 0: *ret_id is the user | ERR_NOT_FOUND: none is this person. */
static int update_user(crud_t *crud, const char *account, const person_t *person, bool login,
                       char ret_id[ID_MAX])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(crud->pg, &res,
                "UPDATE application_user SET username = $4, email = $5, name = $6, "
                "last_login = CASE WHEN $7 = 't' THEN date_trunc('second', now()) "
                "ELSE last_login END, last_active = greatest(last_active, "
                "date_trunc('second', now())) WHERE account_id = $1 AND provider_url = $2 "
                "AND provider_user_id = $3 RETURNING id",
                7, account, person->provider_url, person->id, or_empty(person->username),
                or_empty(person->email), or_empty(person->name), login ? "t" : "f");
    if (r || !PQntuples(res))
        return r ? r : ERR_NOT_FOUND;
    snprintf(ret_id, ID_MAX, "%s", PQgetvalue(res, 0, 0));
    return 0;
}

/* The user that this person is; a new one, if there is none. */
static int find_user(crud_t *crud, const sealed_t *sealed, const person_t *person,
                     problem_t *problem, char ret_id[ID_MAX])
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    _cleanup_(json_clear_ref) json_t *row = NULL;
    session_act_t act;
    char now[32];
    int r = update_user(crud, sealed->account, person, true, ret_id);

    if (r != ERR_NOT_FOUND)
        return r;
    id_make("app_user", ret_id);
    crud_now(now);
    document = new_user(ret_id, person, now);
    if (!document)
        return -ENOMEM;
    session_act_as(&act, crud, sealed->account, ret_id, person->email, "SIGN_IN");
    r = crud_add(crud, kind_find("application_user"), document, problem, &row);
    session_act_done(&act);
    if (!r)
        snprintf(ret_id, ID_MAX, "%s", json_string_value(json_object_get(row, "id")));
    return r == PG_DUPLICATE ? PG_AGAIN : r; /* another call has made it meanwhile */
}

/* ---- sessions ---- */

int64_t session_due_ms(const sealed_t *sealed, int64_t now_ms)
{
    int64_t interval = sealed_number(sealed, "auth_check_interval");

    return interval ? now_ms + 1000 * interval : 0;
}

static const char *text_of(const request_t *request, const char *key)
{
    return json_string_value(json_object_get(request->body, key));
}

static void format_time(int64_t ms, char out[32])
{
    time_t seconds = (time_t)(ms / 1000);
    struct tm utc;

    gmtime_r(&seconds, &utc);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* The object that the API shows. */
static int add_object(crud_t *crud, const sealed_t *sealed, const char *user,
                      const request_t *request, const char *token, int64_t expires_ms,
                      problem_t *problem, json_t **ret_row)
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    char now[32], expires[32], hex[WORDS_HEX_SIZE];

    crud_now(now);
    words_hex(token, hex);
    format_time(expires_ms, expires);
    document = json_pack("{s:o, s:o, s:s, s:s, s:s, s:n, s:s, s:s, s:s}", "public_url",
                         json_sprintf("https://%s", text_of(request, "host")), "browser_session",
                         browser_describe(text_of(request, "ip"), text_of(request, "user_agent")),
                         "application_user_id", user, "last_active", now, "expires_at", expires,
                         "endpoint_id", "edge_id", sealed->edge, "route_id", sealed->route,
                         "token_hash", hex);
    return document ? crud_add(crud, kind_find("application_session"), document, problem, ret_row)
                    : -ENOMEM;
}

/* What is beside it. */
static int add_state(crud_t *crud, const sealed_t *sealed, const char *id, const person_t *person,
                     int64_t now_ms, int64_t expires_ms)
{
    _cleanup_(free_mem) char *tokens = session_seal_tokens(crud, person);
    _cleanup_(free_mem) char *groups = json_dumps(person->groups, JSON_COMPACT);
    char now[24], expires[24], inactivity[24], due[24];

    if (!tokens || !groups)
        return -ENOMEM;
    snprintf(now, sizeof(now), "%" PRId64, now_ms);
    snprintf(expires, sizeof(expires), "%" PRId64, expires_ms);
    snprintf(inactivity, sizeof(inactivity), "%" PRId64,
             1000 * sealed_number(sealed, "inactivity_timeout"));
    snprintf(due, sizeof(due), "%" PRId64, session_due_ms(sealed, now_ms));
    return pg_exec(crud->pg, NULL,
                   "INSERT INTO sign_in_session (session_id, module, digest, groups, "
                   "email_verified, tokens, created_ms, expires_ms, inactivity_ms, "
                   "last_active_ms, checked_ms, due_ms) VALUES ($1, $2, $3, $4::jsonb, "
                   "$5::boolean, $6, $7::bigint, $8::bigint, $9::bigint, $7::bigint, $7::bigint, "
                   "$10::bigint)",
                   10, id, sealed->module, sealed->digest, groups,
                   person->email_verified ? "t" : "f", tokens, now, expires, inactivity, due);
}

int session_make(crud_t *crud, const sealed_t *sealed, const person_t *person,
                 const request_t *request, const char *token, problem_t *problem)
{
    int64_t now = bus_now_ms(), lasts = 1000 * sealed_number(sealed, "maximum_duration");
    int64_t expires = now + (lasts ? lasts : sign_in_session_max_ms());
    _cleanup_(json_clear_ref) json_t *row = NULL;
    char user[ID_MAX];
    session_act_t act;
    int r = find_user(crud, sealed, person, problem, user);

    if (r)
        return r;
    if (person->session_until_s && 1000 * person->session_until_s < expires)
        expires = 1000 * person->session_until_s;
    session_act_as(&act, crud, sealed->account, user, person->email, "SIGN_IN");
    r = add_object(crud, sealed, user, request, token, expires, problem, &row);
    session_act_done(&act);
    if (r == ERR_NOT_FOUND)
        return PG_AGAIN; /* the user was deleted meanwhile: a new one comes */
    return r ? r
             : add_state(crud, sealed, json_string_value(json_object_get(row, "id")), person, now,
                         expires);
}

int session_end(crud_t *crud, const session_t *session, problem_t *problem)
{
    int r = crud_remove(crud, kind_find("application_session"), session->id, problem);

    return r == ERR_NOT_FOUND ? ERR_SESSION_GONE : r;
}

int session_checked(crud_t *crud, const session_t *session, const sealed_t *sealed,
                    const person_t *person)
{
    _cleanup_(free_mem) char *tokens = session_seal_tokens(crud, person);
    _cleanup_(free_mem) char *groups = json_dumps(person->groups, JSON_COMPACT);
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char user[ID_MAX], now[24], due[24];
    int64_t now_ms = bus_now_ms();
    int r;

    if (!tokens || !groups)
        return -ENOMEM;
    snprintf(now, sizeof(now), "%" PRId64, now_ms);
    snprintf(due, sizeof(due), "%" PRId64, session_due_ms(sealed, now_ms));
    r = pg_exec(crud->pg, &res,
                "UPDATE sign_in_session SET digest = $2, groups = $3::jsonb, "
                "email_verified = $4::boolean, tokens = $5, checked_ms = $6::bigint, "
                "due_ms = $7::bigint, checking_until_ms = 0, retry_ms = 0 "
                "WHERE session_id = $1 RETURNING 1",
                7, session->id, sealed->digest, groups, person->email_verified ? "t" : "f", tokens,
                now, due);
    if (r || !PQntuples(res))
        return r ? r : ERR_SESSION_GONE;
    r = update_user(crud, sealed->account, person, false, user);
    return r == ERR_NOT_FOUND ? ERR_SESSION_GONE : r;
}
