#include "services/identity/session_vouch.h"
#include "common/base/cleanup.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"
#include "services/identity/user_jwt.h"

#include <errno.h>
#include <string.h>

static const char *text_of(const request_t *request, const char *key)
{
    return json_string_value(json_object_get(request->body, key));
}

static int check_words(const request_t *request, problem_t *problem)
{
    if (!words_is_hex(text_of(request, "hash")))
        return problem_add(problem, ERR_INVALID_FIELD, "hash", "must be 64 hexadecimal digits");
    if (!text_of(request, "route") || !id_check("edghtsrt", text_of(request, "route")))
        return problem_add(problem, ERR_INVALID_FIELD, "route", "must be the id of a route");
    return 0;
}

/* The session, if it lasts: with the activity that the edge has seen, as in session.check. */
static int load_lasting(crud_t *crud, const request_t *request, session_t *out)
{
    int64_t active = json_integer_value(json_object_get(request->body, "last_active_ms"));
    int64_t now = bus_now_ms();
    int r = session_load(crud, text_of(request, "hash"), out);

    if (r)
        return r;
    active = active > now ? now : active;
    out->last_active_ms = active > out->last_active_ms ? active : out->last_active_ms;
    return strcmp(out->route, text_of(request, "route")) || session_is_over(out, now)
               ? ERR_SESSION_GONE
               : 0;
}

/* "https://" and the host at which it was made; the caller frees it. */
static int load_audience(crud_t *crud, const session_t *session, char **ret_audience)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res, "SELECT public_url FROM application_session WHERE id = $1", 1,
                    session->id);

    if (r || !PQntuples(res))
        return r ? r : ERR_SESSION_GONE;
    *ret_audience = strdup(PQgetvalue(res, 0, 0));
    return *ret_audience ? 0 : -ENOMEM;
}

int vouch_answer(int64_t expires_ms, int64_t now_ms, const char *jwt, reply_t *reply)
{
    const int64_t most = 1000 * (int64_t)USER_JWT_LASTS_S, left = expires_ms - now_ms;
    const json_int_t lasts = expires_ms && left < most ? left : most;

    reply->body =
        json_pack("{s:s, s:I, s:I}", "jwt", jwt, "lasts_ms", lasts, "renew_ms", lasts / 2);
    return reply->body ? 0 : -ENOMEM;
}

int on_session_vouch(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(session_done) session_t session = {0};
    _cleanup_(free_mem) char *audience = NULL, *jwt = NULL;
    const int64_t now = bus_now_ms();
    int r = check_words(request, &reply->problem);

    if (!r)
        r = load_lasting(crud, request, &session);
    if (!r)
        r = load_audience(crud, &session, &audience);
    if (!r)
        r = user_jwt_make(crud->key,
                          &(user_jwt_t){.issuer = sign_in_url(),
                                        .audience = audience,
                                        .subject = session.user,
                                        .session = session.id,
                                        .person = &session.person,
                                        .now_s = now / 1000,
                                        .expires_s = session.expires_ms / 1000},
                          &jwt);
    return r ? r : vouch_answer(session.expires_ms, now, jwt, reply);
}

int on_sign_in_keys(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *keys = NULL;
    _cleanup_(free_mem) char *text = NULL;
    int r = user_jwt_keys(crud->key, bus_now_ms() / 1000, &keys);

    (void)request;
    if (r)
        return r;
    text = json_dumps(keys, JSON_COMPACT);
    reply->body = text ? json_pack("{s:s}", "keys", text) : NULL;
    return reply->body ? 0 : -ENOMEM;
}
