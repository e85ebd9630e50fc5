/* session.end: sign-out. The session is over before anything else happens; then, where the provider
 * has a page for that, the browser is sent there (OpenID Connect RP-Initiated Logout 1.0; SAML
 * profiles 4.4.3). */
#include "common/base/cleanup.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *text_of(const request_t *request, const char *key)
{
    return json_string_value(json_object_get(request->body, key));
}

static int end_session(crud_t *crud, const session_t *session, reply_t *reply)
{
    session_act_t act;
    int r = crud_begin(crud);

    crud->request_key[0] = '\0';
    session_act_as(&act, crud, session->account, session->user,
                   person_vouched_email(&session->person), "SIGN_OUT");
    if (!r)
        r = session_end(crud, session, &reply->problem);
    r = crud_end(crud, r, &reply->revision);
    session_act_done(&act);
    return r;
}

/* Is the provider to be told? It must be the session's own, of the module that the edge sent; of
 * saml the engine sees to that, which knows the provider's metadata. */
static bool wants_to_leave(const session_t *session, const sealed_t *sealed)
{
    const json_t *issuer = json_object_get(sealed->config, "issuer");

    if (!words_equal(sealed->route, session->route)
        || !words_equal(sealed->account, session->account))
        return false;
    if (!strcmp(sealed->module, "saml"))
        return words_equal(session->person.provider_name, "saml");
    return !strcmp(sealed->module, "oidc")
           && words_equal(json_string_value(issuer), session->person.provider_url)
           && !json_is_false(json_object_get(sealed->config, "provider_logout"));
}

/* Begin to find out where its person signs out at the provider. NULL: nowhere. The session is
 * over, so what is wrong with the module is no reason to say otherwise. */
static run_t *begin_leaving(crud_t *crud, const request_t *request, const session_t *session,
                            int64_t revision)
{
    _cleanup_(run_free) run_t *run = run_new();
    problem_t ignored = {0};
    char back[600], state[ID_MAX + WORDS_STATE_LEN + 2], random[WORDS_STATE_LEN + 1];
    char nonce[WORDS_TOKEN_LEN + 1];
    int r = sealed_open(&run->sealed, sign_in_key(crud), request->body, &ignored);

    problem_done(&ignored);
    if (r || !run->sealed.engine || !wants_to_leave(session, &run->sealed))
        return NULL;
    words_state(random);
    snprintf(state, sizeof(state), "%s.%s", session->route, random);
    run_logout_nonce(crud, state, nonce);
    snprintf(back, sizeof(back), "%s/signed-out", sign_in_url());
    run->revision = revision;
    r = run_start(
        run, PROVIDER_LEAVE,
        &(provider_ask_t){
            .redirect_uri = back, .state = state, .nonce = nonce, .known = &session->person});
    return r ? NULL : take(run);
}

/* Where there is none, or the provider cannot be asked, the browser stays. */
static int answer_location(const run_t *run, reply_t *reply)
{
    reply->revision = run->revision;
    reply->body = run->step == PROVIDER_DONE ? run_way_on(run) : json_object();
    return reply->body ? json_object_set_new(reply->body, "ended", json_true()) : -ENOMEM;
}

/* Was the session's cookie shown at its own route, or at another one of its edge? */
static bool is_shown_where_it_is(crud_t *crud, const request_t *request, const session_t *session)
{
    _cleanup_(sealed_done) sealed_t sealed = {0};
    problem_t ignored = {0};
    int r;

    if (words_equal(session->route, text_of(request, "route")))
        return true;
    r = sealed_open_place(&sealed, sign_in_key(crud), request->body, &ignored);
    problem_done(&ignored);
    return !r && session_is_beside(session, &sealed);
}

int session_answer_gone(crud_t *crud, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = pg_exec(crud->pg, &res, "SELECT revision FROM config_head", 0);

    if (!r && PQntuples(res))
        reply->revision = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    return r;
}

/* What the first run found: the session is over; there was none by then. */
typedef struct end {
    bool ended, gone;
} end_t;

/* The first run: 0: *out says how it is, and *ret_run is who to ask, or NULL: nobody. */
static int begin_end(crud_t *crud, const request_t *request, reply_t *reply, run_t **ret_run,
                     end_t *out)
{
    const char *hash = text_of(request, "hash");
    _cleanup_(session_done) session_t session = {0};
    int r;

    if (!words_is_hex(hash))
        return problem_add(&reply->problem, ERR_INVALID_FIELD, "hash",
                           "must be 64 hexadecimal digits");
    r = session_load(crud, hash, &session);
    if (!r && !is_shown_where_it_is(crud, request, &session))
        return 0;
    if (!r)
        r = end_session(crud, &session, reply);
    if (!r && text_of(request, "sealed"))
        *ret_run = begin_leaving(crud, request, &session, reply->revision);
    *out = (end_t){.ended = !r || r == ERR_SESSION_GONE, .gone = r == ERR_SESSION_GONE};
    return out->gone ? session_answer_gone(crud, reply) : r;
}

int on_session_end(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    const wait_answer_t *came;
    run_t *run = crud_resumed(crud, &came);
    end_t end = {0};
    int r = 0;

    if (!run) {
        r = begin_end(crud, request, reply, &fresh, &end);
        run = fresh;
    }
    if (!r && !run)
        reply->body = json_pack("{s:b, s:b}", "ended", end.ended, "gone", end.gone);
    if (r || !run)
        return r ? r : reply->body ? 0 : -ENOMEM;
    r = run_advance(crud, run, fresh ? &fresh : &run, came);
    return r ? r : answer_location(run, reply);
}
