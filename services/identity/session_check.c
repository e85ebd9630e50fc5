/* session.check: may this session be used on, by the rules of its route as they are now? */
#include "common/base/cleanup.h"
#include "services/identity/rules.h"
#include "services/identity/session.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TURN_MS = 200,   /* between two looks whether another call has asked the provider */
    RETRY_MS = 5000, /* a provider that did not answer is not asked again for the same session */
    WHY_SIZE = 200
};

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
    if (!words_is_hex(text_of(request, "digest")))
        return problem_add(problem, ERR_INVALID_FIELD, "digest", "must be 64 hexadecimal digits");
    return 0;
}

/* Load it, with the activity that the edge has seen, as far as it is not from the future. */
static int load_active(crud_t *crud, const request_t *request, session_t *out)
{
    json_int_t active = json_integer_value(json_object_get(request->body, "last_active_ms"));
    int64_t now = bus_now_ms();
    int r = session_load(crud, text_of(request, "hash"), out);

    if (r)
        return r;
    if (active > now)
        active = now;
    if (active > out->last_active_ms)
        out->last_active_ms = active;
    return strcmp(out->route, text_of(request, "route")) || session_is_over(out, now)
               ? ERR_SESSION_GONE
               : 0;
}

static int answer_session(const session_t *session, reply_t *reply)
{
    reply->body = json_pack("{s:o, s:I}", "session", session_json(session), "now_ms",
                            (json_int_t)bus_now_ms());
    return reply->body ? 0 : -ENOMEM;
}

/* Is the session good by rules of that digest, without asking anybody? */
static bool is_good(const session_t *session, const char *digest)
{
    return words_equal(session->digest, digest)
           && (!session->due_ms || session->due_ms > bus_now_ms());
}

/* One call asks the provider at a time, of all copies; until its own deadline, should it die. */
static int take_turn(crud_t *crud, const session_t *session, bool *ret_mine)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int64_t now = bus_now_ms(), left = crud->request->deadline_ms - bus_mono_ms();
    char now_text[24], until[24], checked[24];
    int r;

    snprintf(now_text, sizeof(now_text), "%" PRId64, now);
    snprintf(until, sizeof(until), "%" PRId64, now + (left > 0 ? left : 0));
    snprintf(checked, sizeof(checked), "%" PRId64, session->checked_ms);
    crud->changes = true;
    r = pg_exec(crud->pg, &res,
                "UPDATE sign_in_session SET checking_until_ms = $3::bigint WHERE session_id = $1 "
                "AND checking_until_ms <= $2::bigint AND checked_ms = $4::bigint RETURNING 1",
                4, session->id, now_text, until, checked);
    *ret_mine = !r && PQntuples(res);
    return r;
}

/* The provider did not answer: nobody asks it for a while. */
static int put_off(crud_t *crud, const char *id)
{
    char until[24];

    snprintf(until, sizeof(until), "%" PRId64, bus_now_ms() + RETRY_MS);
    crud->changes = true;
    return pg_exec(crud->pg, NULL,
                   "UPDATE sign_in_session SET checking_until_ms = 0, retry_ms = $2::bigint "
                   "WHERE session_id = $1",
                   2, id, until);
}

/* The rules do not admit, or the provider vouches no more: the session ends. */
static int deny(crud_t *crud, const session_t *session, const char *why, reply_t *reply)
{
    session_act_t act;
    int r = crud_begin(crud);

    crud->request_key[0] = '\0';
    session_act_as(&act, crud, session->account, session->user, session->person.email, "RULES");
    if (!r)
        r = session_end(crud, session, &reply->problem);
    r = crud_end(crud, r, &reply->revision);
    session_act_done(&act);
    return r && r != ERR_SESSION_GONE
               ? r
               : problem_add(&reply->problem, ERR_SIGN_IN_DENIED, NULL, "%s", why);
}

/* ---- asking the provider ---- */

/* Begin to ask it, or wait for the call that does. 0: run has a flow | VERB_WAITS: another call
 * asks | ERR_SIGN_IN_UNAVAILABLE | fault. */
static int begin_asking(crud_t *crud, const session_t *session, run_t *run, run_t **run_p,
                        problem_t *problem)
{
    void *state = *run_p;
    bool mine;
    int r;

    if (session->retry_ms > bus_now_ms())
        return problem_add(problem, ERR_SIGN_IN_UNAVAILABLE, NULL,
                           "the identity provider did not answer a moment ago");
    r = sealed_check_engine(&run->sealed, problem);
    if (!r)
        r = take_turn(crud, session, &mine);
    if (r)
        return r;
    if (mine)
        return run_start(run, PROVIDER_REFRESH,
                         &(provider_ask_t){.refresh_token = session->person.refresh_token,
                                           .access_token = session->person.access_token,
                                           .known = &session->person});
    r = crud_pause(crud, run->sealed.account, TURN_MS, &state, run_free_state);
    *run_p = state;
    return r;
}

/* What the provider says now, and what that means for the session. */
static int judge_person(crud_t *crud, const run_t *run, session_t *session, reply_t *reply)
{
    _cleanup_(person_done) person_t now = {0};
    _cleanup_(json_clear_ref) json_t *old = NULL;
    char why[WHY_SIZE] = "";
    int r;

    if (run->step == PROVIDER_DENIED)
        return deny(crud, session, run->sealed.engine->why(run->engine_flow), reply);
    if (run->step != PROVIDER_DONE) {
        r = put_off(crud, session->id);
        return r ? r
                 : problem_add(&reply->problem, ERR_SIGN_IN_UNAVAILABLE, NULL, "%s",
                               run->sealed.engine->why(run->engine_flow));
    }
    run->sealed.engine->person(run->engine_flow, &now);
    if (!now.id || strcmp(now.id, session->person.id))
        return deny(crud, session, "the identity provider speaks of somebody else", reply);
    if (!sign_in_admits(run->sealed.module, run->sealed.config, &now, why, sizeof(why)))
        return deny(crud, session, why, reply);
    old = person_tokens(&session->person);
    person_add_tokens(&now, old);
    r = crud_begin(crud);
    crud->request_key[0] = '\0';
    if (!r)
        r = session_checked(crud, session, &run->sealed, &now);
    return crud_end(crud, r, &reply->revision);
}

/* The session must be checked, and the rules are there. */
static int recheck(crud_t *crud, session_t *session, run_t *run, run_t **run_p,
                   const wait_answer_t *came, reply_t *reply)
{
    _cleanup_(session_done) session_t after = {0};
    int r = 0;

    if (!run->engine_flow)
        r = begin_asking(crud, session, run, run_p, &reply->problem);
    if (!r)
        r = run_advance(crud, run, run_p, came);
    if (!r)
        r = judge_person(crud, run, session, reply);
    if (!r)
        r = session_load(crud, session->hash, &after);
    return r ? r : answer_session(&after, reply);
}

/* The sealed module must be that of the session. */
static int open_rules(crud_t *crud, const session_t *session, const request_t *request,
                      problem_t *problem, run_t **ret_run)
{
    _cleanup_(run_free) run_t *run = run_new();
    int r;

    if (!text_of(request, "sealed"))
        return ERR_SESSION_STALE;
    r = sealed_open(&run->sealed, sign_in_key(crud), request->body, problem);
    if (r)
        return r;
    if (strcmp(run->sealed.route, session->route) || strcmp(run->sealed.account, session->account))
        return ERR_SESSION_GONE;
    *ret_run = take(run);
    return 0;
}

int on_session_check(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(session_done) session_t session = {0};
    _cleanup_(run_free) run_t *fresh = NULL;
    const wait_answer_t *came;
    run_t *run = crud_resumed(crud, &came);
    int r = check_words(request, &reply->problem);

    if (!r)
        r = load_active(crud, request, &session);
    if (r)
        return r;
    if (!run && is_good(&session, text_of(request, "digest")))
        return answer_session(&session, reply);
    if (!run) {
        r = open_rules(crud, &session, request, &reply->problem, &fresh);
        run = fresh;
    }
    if (r)
        return r;
    if (!run->engine_flow && is_good(&session, run->sealed.digest))
        return answer_session(&session, reply);
    return recheck(crud, &session, run, fresh ? &fresh : &run, came, reply);
}
