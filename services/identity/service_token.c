#include "services/identity/service_token.h"
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "services/identity/session.h"
#include "services/identity/session_vouch.h"
#include "services/identity/sign_in_run.h"
#include "services/identity/token.h"
#include "services/identity/user_jwt.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

/* What all of them begin with, so that whoever finds one knows what it is. Edges look for it. */
#define MARK "postern_"

enum { SERVICE_TOKEN_SIZE = sizeof(MARK) + TOKEN_LEN };

/* ---- the resource ---- */

static void make_token(const crud_t *crud, const char *id, char out[SERVICE_TOKEN_SIZE])
{
    memcpy(out, MARK, sizeof(MARK) - 1);
    token_make(crud, id, out + sizeof(MARK) - 1);
}

static int note_hash(crud_t *crud, json_t *document)
{
    char token[SERVICE_TOKEN_SIZE], hash[TOKEN_HASH_SIZE];

    make_token(crud, json_string_value(json_object_get(document, "id")), token);
    token_hash(token, hash);
    sodium_memzero(token, sizeof(token));
    json_object_set_new(document, "token_hash", json_string(hash));
    return 0;
}

/* What edges know of it is not so any more: they forget it, and ask when it is shown again. */
static int tell_edges(crud_t *crud, const char *id)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res, "SELECT token_hash FROM service_token WHERE id = $1", 1, id);

    if (r || PQntuples(res) == 0)
        return r;
    return crud_publish(crud, "application_session", PQgetvalue(res, 0, 0), NULL);
}

/* An end that has passed is a mistake, of a year or a time zone, and would make a token that never
 * worked. One that was stored and has passed since may be said again. By the database's clock, as
 * when the token is shown. */
static int check_end(crud_t *crud, const json_t *document, const json_t *old, problem_t *problem)
{
    const char *end = json_string_value(json_object_get(document, "expires_at"));
    const char *before = json_string_value(json_object_get(old, "expires_at"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    if (!end)
        return 0;
    r = pg_exec(crud->pg, &res,
                "SELECT 1 WHERE $1::timestamptz <= now() "
                "AND $1::timestamptz IS DISTINCT FROM nullif($2, '')::timestamptz",
                2, end, before ? before : "");
    if (r || PQntuples(res) == 0)
        return r;
    return problem_add(problem, ERR_BAD_TIMESTAMP, "expires_at",
                       "must be in the future, or null: delete the token to end it now");
}

static int service_token_check(crud_t *crud, json_t *document, const json_t *old,
                               json_t *references, problem_t *problem)
{
    int r = check_end(crud, document, old, problem);

    (void)references;
    if (r)
        return r;
    if (!json_array_size(json_object_get(document, "route_ids"))
        && !json_array_size(json_object_get(document, "edge_ids")))
        return problem_add(problem, ERR_REQUIRED_MISSING, "route_ids",
                           "is required: the token must be for a route or, by edge_ids, an edge");
    if (!old)
        return note_hash(crud, document);
    return tell_edges(crud, json_string_value(json_object_get(old, "id")));
}

static int service_token_reveal(crud_t *crud, const json_t *row, json_t *rendered)
{
    char token[SERVICE_TOKEN_SIZE];

    make_token(crud, json_string_value(json_object_get(row, "id")), token);
    json_object_set_new(rendered, "token", json_string(token));
    sodium_memzero(token, sizeof(token));
    return 0;
}

static int service_token_gone(crud_t *crud, const json_t *row)
{
    return tell_edges(crud, json_string_value(json_object_get(row, "id")));
}

KIND_RULES(service_token, .check = service_token_check, .created = service_token_reveal,
           .gone = service_token_gone);

/* ---- what edges ask ---- */

/* Columns of the query below. */
enum { AT_ID, AT_NAME, AT_EXPIRES, AT_CREATED };

/* The row, if it is for the sealed module's route, and in time. 0 | ERR_SESSION_GONE | fault. */
static int load_token(crud_t *crud, const char *hash, const sealed_t *sealed, PGresult **ret_res)
{
    int r = pg_exec(crud->pg, ret_res,
                    "SELECT id, name, coalesce(floor(extract(epoch FROM expires_at) * 1000), 0)"
                    "::bigint, floor(extract(epoch FROM created_at) * 1000)::bigint "
                    "FROM service_token WHERE token_hash = $1 AND account_id = $2 "
                    "AND (route_ids ? $3 OR edge_ids ? $4) "
                    "AND (expires_at IS NULL OR expires_at > now())",
                    4, hash, sealed->account, sealed->route, sealed->edge);

    return r || PQntuples(*ret_res) ? r : ERR_SESSION_GONE;
}

static json_int_t number_at(const PGresult *res, int column)
{
    return strtoll(PQgetvalue(res, 0, column), NULL, 10);
}

/* As session_json has a session; 0 are times that never come. */
static json_t *render_session(const PGresult *res, const sealed_t *sealed)
{
    const char *id = PQgetvalue(res, 0, AT_ID);
    const json_int_t now = bus_now_ms();

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:[], s:I, s:I, s:i, s:i, s:I, s:I}",
                     "id", id, "user", id, "route", sealed->route, "digest", sealed->digest,
                     "provider_user_id", id, "name", PQgetvalue(res, 0, AT_NAME), "email", "",
                     "groups", "created_ms", number_at(res, AT_CREATED), "expires_ms",
                     number_at(res, AT_EXPIRES), "due_ms", 0, "inactivity_ms", 0, "last_active_ms",
                     now, "checked_ms", now);
}

/* Of a body {hash, sealed}: *sealed is for sealed_done in any case, *ret_res is the row. */
static int find_asked(crud_t *crud, const request_t *request, problem_t *problem, sealed_t *sealed,
                      PGresult **ret_res)
{
    const char *hash = json_string_value(json_object_get(request->body, "hash"));
    int r;

    if (!words_is_hex(hash))
        return problem_add(problem, ERR_INVALID_FIELD, "hash", "must be 64 hexadecimal digits");
    r = sealed_open(sealed, sign_in_key(crud), request->body, problem);
    if (r)
        return r;
    if (!json_is_true(json_object_get(sealed->config, "service_tokens")))
        return ERR_SESSION_GONE;
    return load_token(crud, hash, sealed, ret_res);
}

int on_service_token_vouch(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(sealed_done) sealed_t sealed = {0};
    _cleanup_(free_mem) char *jwt = NULL;
    const int64_t now = bus_now_ms();
    int64_t expires;
    int r = find_asked(crud, request, &reply->problem, &sealed, &res);

    if (r)
        return r;
    expires = number_at(res, AT_EXPIRES);
    r = user_jwt_make(crud->key,
                      &(user_jwt_t){.issuer = sign_in_url(),
                                    .audience = sealed.route,
                                    .subject = PQgetvalue(res, 0, AT_ID),
                                    .person = &(person_t){.name = PQgetvalue(res, 0, AT_NAME)},
                                    .now_s = now / 1000,
                                    .expires_s = expires ? expires / 1000 : INT64_MAX},
                      &jwt);
    return r ? r : vouch_answer(expires, now, jwt, reply);
}

int on_service_token_check(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(sealed_done) sealed_t sealed = {0};
    int r = find_asked(crud, request, &reply->problem, &sealed, &res);

    if (r)
        return r;
    reply->body = json_pack("{s:o}", "session", render_session(res, &sealed));
    return reply->body ? 0 : -ENOMEM;
}
