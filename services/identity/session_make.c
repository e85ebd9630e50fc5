/* Sessions and their users come, change and go: in the transactions of their callers. */
#include "common/base/cleanup.h"
#include "services/identity/browser.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"
#include "services/identity/user_room.h"

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
    return json_pack("{s:s, s:{s:s, s:s}, s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "id", id,
                     "identity_provider", "name", person->provider_name, "url",
                     person->provider_url, "provider_url", person->provider_url, "provider_user_id",
                     person->id, "name_form", or_empty(person->name_form), "username",
                     or_empty(person->username), "email", or_empty(person->email), "name",
                     or_empty(person->name), "last_active", now, "last_login", now);
}

/* How the person is described now. known: the user of a session that goes on; NULL: somebody signs
 * in. A user of whom the form of the name is not known is whoever signs in first by the text. 0:
 * *ret_id is the user | ERR_NOT_FOUND: none is this person. */
static int update_user(crud_t *crud, const char *account, const person_t *person, const char *known,
                       char ret_id[ID_MAX])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(
        crud->pg, &res,
        "UPDATE application_user u SET username = $4, email = $5, name = $6, "
        "last_login = CASE WHEN $7 = '' THEN date_trunc('second', now()) "
        "ELSE last_login END, last_active = greatest(last_active, "
        "date_trunc('second', now())), "
        "name_form = CASE WHEN $7 = '' THEN $9 ELSE name_form END "
        "WHERE account_id = $1 AND provider_url = $2 "
        "AND provider_user_id = $3 AND identity_provider->>'name' = $8 "
        "AND CASE WHEN $7 > '' THEN id = $7 ELSE coalesce(name_form, '') = $9 OR "
        "(coalesce(name_form, '') = '' "
        "     AND NOT EXISTS (SELECT 1 FROM application_user o WHERE o.account_id = $1 "
        "     AND o.provider_url = $2 AND o.provider_user_id = $3 "
        "     AND o.identity_provider->>'name' = $8 AND coalesce(o.name_form, '') = $9)) END "
        "RETURNING id",
        9, account, person->provider_url, person->id, or_empty(person->username),
        or_empty(person->email), or_empty(person->name), or_empty(known), person->provider_name,
        or_empty(person->name_form));
    if (r || !PQntuples(res))
        return r ? r : ERR_NOT_FOUND;
    snprintf(ret_id, ID_MAX, "%s", PQgetvalue(res, 0, 0));
    return 0;
}

static int add_user(crud_t *crud, user_room_t *room, problem_t *problem, char ret_id[ID_MAX])
{
    const person_t *person = room->newcomer;
    _cleanup_(json_clear_ref) json_t *document = NULL;
    _cleanup_(json_clear_ref) json_t *row = NULL;
    session_act_t act;
    char now[32];
    int r;

    id_make("app_user", ret_id);
    crud_now(now);
    document = new_user(ret_id, person, now);
    if (!document)
        return -ENOMEM;
    session_act_as(&act, crud, room->account, ret_id, person_vouched_email(person), "SIGN_IN");
    r = user_room_add(crud, room, kind_find("application_user"), document, problem, &row);
    session_act_done(&act);
    if (!r)
        snprintf(ret_id, ID_MAX, "%s", json_string_value(json_object_get(row, "id")));
    return r == PG_DUPLICATE ? PG_AGAIN : r; /* another call has made it meanwhile */
}

/* The user that the newcomer is; a new one, if there is none. */
static int find_user(crud_t *crud, user_room_t *room, problem_t *problem, char ret_id[ID_MAX])
{
    int r = update_user(crud, room->account, room->newcomer, NULL, ret_id);

    return r == ERR_NOT_FOUND ? add_user(crud, room, problem, ret_id) : r;
}

/* ---- sessions ---- */

int64_t session_due_ms(const sealed_t *sealed, int64_t checked_ms)
{
    int64_t interval = sealed_number(sealed, "auth_check_interval");

    return interval ? checked_ms + 1000 * interval : 0;
}

/* By the module, and not later than the provider wants (0: it does not say). */
static int64_t expires_ms_of(const sealed_t *sealed, int64_t created_ms, int64_t until_ms)
{
    int64_t lasts = 1000 * sealed_number(sealed, "maximum_duration");
    int64_t expires_ms = created_ms + (lasts ? lasts : sign_in_session_max_ms());

    return until_ms && until_ms < expires_ms ? until_ms : expires_ms;
}

/* Fields that a document's answers do not depend on. Of oauth, teams and organizations are not
 * among them: only those that it lists are kept of all that the user belongs to. */
static void drop_rules(json_t *config)
{
    static const char *const fields[] = {"enabled",
                                         "cookie_prefix",
                                         "options_passthrough",
                                         "allow_idp_initiated",
                                         "maximum_duration",
                                         "inactivity_timeout",
                                         "auth_check_interval",
                                         "client_secret",
                                         "email_addresses",
                                         "email_domains",
                                         "groups",
                                         "authorized_groups",
                                         "made_id",
                                         "revision",
                                         "service_tokens",
                                         "bearer_tokens",
                                         "bearer_audiences",
                                         "provider_logout",
                                         "request_signing_certificate_pem",
                                         "request_signing_key_pem",
                                         "encryption_certificate_pem",
                                         "encryption_key_pem",
                                         "key_rotation",
                                         "other_request_signing_certificate_pem",
                                         "other_encryption_certificate_pem",
                                         "other_encryption_key_pem"};

    for (size_t i = 0; i < LEN(fields); i++)
        json_object_del(config, fields[i]);
}

int session_source(const sealed_t *sealed, char out[WORDS_HEX_SIZE])
{
    _cleanup_(json_clear_ref) json_t *config = json_deep_copy(sealed->config);
    _cleanup_(json_clear_ref) json_t *whole = NULL;
    _cleanup_(free_mem) char *text = NULL;
    const char *name;
    json_t *part;

    drop_rules(config);
    json_object_foreach(json_object_get(config, "provider"), name, part)
    {
        drop_rules(part);
    }
    whole = json_pack("[s, O]", sealed->module, config);
    text = whole ? json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!text)
        return -ENOMEM;
    words_hex(text, out);
    return 0;
}

/* What the provider said of the person, as a session keeps it. The caller frees it. */
static char *claims_text(const person_t *person)
{
    _cleanup_(json_clear_ref) json_t *claims =
        json_pack("{s:s, s:s, s:s, s:s}", "provider", person->provider_name, "username",
                  or_empty(person->username), "name", or_empty(person->name), "email",
                  or_empty(person->email));

    return claims ? json_dumps(claims, JSON_COMPACT) : NULL;
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

/* What a session is made of: whose, by what request, until when. */
typedef struct session_made {
    char user[ID_MAX];
    const request_t *request;
    const char *token; /* the cookie's value */
    int64_t expires_ms;
} session_made_t;

/* The object that the API shows. As user_room_add. */
static int add_object(crud_t *crud, const sealed_t *sealed, const session_made_t *made,
                      user_room_t *room, problem_t *problem, json_t **ret_row)
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    char now[32], expires[32], hex[WORDS_HEX_SIZE];

    crud_now(now);
    words_hex(made->token, hex);
    format_time(made->expires_ms, expires);
    document = json_pack(
        "{s:o, s:o, s:s, s:s, s:s, s:n, s:s, s:s, s:s}", "public_url",
        json_sprintf("https://%s", text_of(made->request, "host")), "browser_session",
        browser_describe(text_of(made->request, "ip"), text_of(made->request, "user_agent")),
        "application_user_id", made->user, "last_active", now, "expires_at", expires, "endpoint_id",
        "edge_id", sealed->edge, "route_id", sealed->route, "token_hash", hex);
    return document ? user_room_add(crud, room, kind_find("application_session"), document, problem,
                                    ret_row)
                    : -ENOMEM;
}

/* What is beside it. */
static int add_state(crud_t *crud, const sealed_t *sealed, const request_t *request, const char *id,
                     const person_t *person, int64_t now_ms, int64_t expires_ms)
{
    _cleanup_(free_mem) char *tokens = session_seal_tokens(crud, person);
    _cleanup_(free_mem) char *groups = json_dumps(person->groups, JSON_COMPACT);
    _cleanup_(free_mem) char *claims = claims_text(person);
    char now[24], expires[24], inactivity[24], due[24], until[24], revision[24];
    char source[WORDS_HEX_SIZE], client[WORDS_HEX_SIZE], provider[WORDS_HEX_SIZE];
    char place[SESSION_PLACE_SIZE], host[SESSION_HOST_SIZE];
    int r;

    session_provider_hashes(sealed, person, client, provider);
    session_host(text_of(request, "host"), host);
    session_place(sealed, host, place);
    if (!tokens || !groups || !claims || session_source(sealed, source))
        return -ENOMEM;
    snprintf(now, sizeof(now), "%" PRId64, now_ms);
    snprintf(expires, sizeof(expires), "%" PRId64, expires_ms);
    snprintf(inactivity, sizeof(inactivity), "%" PRId64,
             1000 * sealed_number(sealed, "inactivity_timeout"));
    snprintf(due, sizeof(due), "%" PRId64, session_due_ms(sealed, now_ms));
    snprintf(until, sizeof(until), "%" PRId64, 1000 * person->session_until_s);
    snprintf(revision, sizeof(revision), "%" PRId64, sealed->revision);
    r = pg_exec(crud->pg, NULL,
                "INSERT INTO sign_in_session (session_id, module, digest, groups, "
                "email_verified, tokens, created_ms, expires_ms, inactivity_ms, "
                "last_active_ms, checked_ms, due_ms, claims, source, client_hash, "
                "provider_hash, until_ms, counts_at, place) VALUES ($1, $2, $3, "
                "$4::jsonb, $5::boolean, $6, $7::bigint, $8::bigint, $9::bigint, $7::bigint, "
                "$7::bigint, $10::bigint, $11::jsonb, $12, $13, $14, $15::bigint, $16, "
                "array_to_string((string_to_array($16, ' '))[1:3], ' '))",
                16, id, sealed->module, sealed->digest, groups, person->email_verified ? "t" : "f",
                tokens, now, expires, inactivity, due, claims, source, client, provider, until,
                place);
    /* a statement has PG_PARAMS_MAX parameters at most */
    return r ? r
             : pg_defer(crud->pg,
                        "UPDATE sign_in_session SET rules_revision = $2::bigint "
                        "WHERE session_id = $1",
                        2, id, revision);
}

int session_make(crud_t *crud, const sealed_t *sealed, user_room_t *room, const request_t *request,
                 const char *token, problem_t *problem)
{
    const person_t *person = room->newcomer;
    int64_t now = bus_now_ms();
    int64_t expires = expires_ms_of(sealed, now, 1000 * person->session_until_s);
    _cleanup_(json_clear_ref) json_t *row = NULL;
    session_made_t made = {.request = request, .token = token, .expires_ms = expires};
    session_act_t act;
    int r = find_user(crud, room, problem, made.user);

    if (r)
        return r;
    session_act_as(&act, crud, sealed->account, made.user, person_vouched_email(person), "SIGN_IN");
    r = session_end_oldest(crud, made.user, problem);
    if (!r)
        r = add_object(crud, sealed, &made, room, problem, &row);
    session_act_done(&act);
    if (r == ERR_NOT_FOUND)
        return PG_AGAIN; /* the user was deleted meanwhile: a new one comes */
    return r ? r
             : add_state(crud, sealed, request, json_string_value(json_object_get(row, "id")),
                         person, now, expires);
}

int session_end(crud_t *crud, const session_t *session, problem_t *problem)
{
    int r = crud_remove(crud, kind_find("application_session"), session->id, problem);

    return r == ERR_NOT_FOUND ? ERR_SESSION_GONE : r;
}

int session_end_found(crud_t *crud, const char *account, const char *source, const PGresult *found,
                      problem_t *problem)
{
    int r = 0;

    for (int i = 0; i < PQntuples(found) && !r; i++) {
        session_t session = {0};
        session_act_t act;
        const char *email = PQgetvalue(found, i, 2);

        snprintf(session.id, sizeof(session.id), "%s", PQgetvalue(found, i, 0));
        session_act_as(&act, crud, account, PQgetvalue(found, i, 1), *email ? email : NULL, source);
        r = session_end(crud, &session, problem);
        session_act_done(&act);
        if (r == ERR_SESSION_GONE) /* somebody else has ended it meanwhile */
            r = 0;
    }
    return r;
}

/* How long it lasts, and when its provider is asked again, by the module as it is now. */
static int set_limits(crud_t *crud, session_t *session, const sealed_t *sealed)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char inactivity[24], expires[24], due[24], until[24], revision[24];
    int r;

    session->inactivity_ms = 1000 * sealed_number(sealed, "inactivity_timeout");
    session->expires_ms = expires_ms_of(sealed, session->created_ms, session->until_ms);
    session->due_ms = session_due_ms(sealed, session->checked_ms);
    snprintf(inactivity, sizeof(inactivity), "%" PRId64, session->inactivity_ms);
    snprintf(expires, sizeof(expires), "%" PRId64, session->expires_ms);
    snprintf(due, sizeof(due), "%" PRId64, session->due_ms);
    snprintf(until, sizeof(until), "%" PRId64, session->until_ms);
    snprintf(revision, sizeof(revision), "%" PRId64, sealed->revision);
    r = pg_exec(crud->pg, &res,
                "WITH shown AS (UPDATE application_session SET expires_at = "
                "date_trunc('second', to_timestamp($4::bigint / 1000.0)) WHERE id = $1) "
                "UPDATE sign_in_session SET digest = $2, inactivity_ms = $3::bigint, "
                "expires_ms = $4::bigint, due_ms = $5::bigint, until_ms = $6::bigint, "
                "rules_revision = $7::bigint WHERE session_id = $1 RETURNING 1",
                7, session->id, sealed->digest, inactivity, expires, due, until, revision);
    return r || PQntuples(res) ? r : ERR_SESSION_GONE;
}

/* One that a version before made is of the cookie's name that is in force now. 0 | fault. */
static int note_place(crud_t *crud, const session_t *session, const sealed_t *sealed)
{
    char place[SESSION_PLACE_SIZE];

    session_place(sealed, session->host, place);
    if (!strcmp(session->place, place))
        return 0;
    return pg_exec(crud->pg, NULL,
                   "UPDATE sign_in_session SET counts_at = $2 WHERE session_id = $1", 2,
                   session->id, place);
}

int session_readmitted(crud_t *crud, session_t *session, const sealed_t *sealed)
{
    int r = session_lock_rules(crud, session, sealed, false);

    r = r ? r : note_place(crud, session, sealed);
    return r ? r : set_limits(crud, session, sealed);
}

/* Of two times or spans, of which 0 is never. */
static int64_t sooner(int64_t one, int64_t other)
{
    return one && (one < other || !other) ? one : other;
}

void session_narrow(session_t *session, const sealed_t *sealed)
{
    int64_t expires_ms = expires_ms_of(sealed, session->created_ms, session->until_ms);

    session->expires_ms = sooner(session->expires_ms, expires_ms);
    session->inactivity_ms =
        sooner(session->inactivity_ms, 1000 * sealed_number(sealed, "inactivity_timeout"));
    session->due_ms = sooner(session->due_ms, session_due_ms(sealed, session->checked_ms));
    snprintf(session->digest, sizeof(session->digest), "%s", sealed->digest);
}

int session_checked(crud_t *crud, session_t *session, const sealed_t *sealed,
                    const person_t *person)
{
    _cleanup_(free_mem) char *tokens = session_seal_tokens(crud, person);
    _cleanup_(free_mem) char *groups = json_dumps(person->groups, JSON_COMPACT);
    _cleanup_(free_mem) char *claims = claims_text(person);
    char user[ID_MAX], now[24], source[WORDS_HEX_SIZE];
    char client[WORDS_HEX_SIZE], provider[WORDS_HEX_SIZE];
    int r;

    session_provider_hashes(sealed, person, client, provider);
    if (!tokens || !groups || !claims || session_source(sealed, source))
        return -ENOMEM;
    session->checked_ms = bus_now_ms();
    if (person->session_until_s)
        session->until_ms = 1000 * person->session_until_s;
    snprintf(now, sizeof(now), "%" PRId64, session->checked_ms);
    r = session_lock_rules(crud, session, sealed, false);
    if (!r)
        r = pg_exec(crud->pg, NULL,
                    "UPDATE sign_in_session SET groups = $2::jsonb, email_verified = $3::boolean, "
                    "tokens = $4, checked_ms = $5::bigint, claims = $6::jsonb, source = $7, "
                    "checking_until_ms = 0, retry_ms = 0, client_hash = $8, provider_hash = $9 "
                    "WHERE session_id = $1",
                    9, session->id, groups, person->email_verified ? "t" : "f", tokens, now, claims,
                    source, client, provider);
    if (!r)
        r = note_place(crud, session, sealed);
    if (!r)
        r = set_limits(crud, session, sealed);
    if (!r)
        r = update_user(crud, sealed->account, person, session->user, user);
    return r == ERR_NOT_FOUND ? ERR_SESSION_GONE : r;
}
