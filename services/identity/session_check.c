/* session.check: may this session be used on, by the rules of its route as they are now? */
#include "common/base/cleanup.h"
#include "services/identity/rules.h"
#include "services/identity/rules_newest.h"
#include "services/identity/rules_restored.h"
#include "services/identity/session_turn.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TURN_MS = 200, /* between two looks whether another call has asked the provider */
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
    /* what is left out is any host: something else is not taken for that */
    if (json_object_get(request->body, "host") && !text_of(request, "host"))
        return problem_add(problem, ERR_INVALID_FIELD, "host", "must be text");
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
                   || !session_is_at_its_host(out, text_of(request, "host"))
               ? ERR_SESSION_GONE
               : 0;
}

/* The same, with tokens that are kept of it in its row. What is kept of others is written on the
 * way: where that fails it is kept on, and no fault of this check. */
static int load_written(crud_t *crud, const request_t *request, session_t *out)
{
    bool is_written = false;
    int r;

    if (session_tokens_count())
        (void)session_tokens_write(crud);
    r = load_active(crud, request, out);
    if (!r)
        r = session_tokens_write_own(crud, out->id, &is_written);
    if (r || !is_written)
        return r;
    session_done(out);
    *out = (session_t){0};
    return load_active(crud, request, out);
}

static int answer_session(const session_t *session, reply_t *reply)
{
    reply->body = json_pack("{s:o, s:I}", "session", session_json(session), "now_ms",
                            (json_int_t)bus_now_ms());
    return reply->body ? 0 : -ENOMEM;
}

static bool is_due(int64_t due_ms)
{
    return due_ms && due_ms <= bus_now_ms();
}

/* Is the session good by rules of that digest, without asking anybody? */
static bool is_good(const session_t *session, const char *digest)
{
    return words_equal(session->digest, digest) && !is_due(session->due_ms);
}

/* Are there newer rules than these: those by which the session was judged, or others that are
 * known? 0 | fault. */
static int find_newer(crud_t *crud, session_t *session, const sealed_t *sealed, bool *ret_newer)
{
    int r = rules_restored_apply(crud, session, sealed);

    *ret_newer = session_is_beyond(session, sealed);
    return r || *ret_newer ? r : rules_newest_find(crud, sealed, ret_newer);
}

/* ---- its end ---- */

/* Whose word ends a session. */
typedef enum ender {
    ENDER_RULES,   /* which count as far as there are no newer ones */
    ENDER_PROVIDER /* what it vouches for no more is over; of older rules, if newer ask the same */
} ender_t;

/* Do the rules that judged the session last ask the provider for the same as these do: by the same
 * client, for the same scopes, teams and organizations? Its word is one for both then. In a
 * transaction that has locked the session. 0 | ERR_SESSION_STALE: another | ERR_SESSION_GONE |
 * fault. */
static int check_source(crud_t *crud, const session_t *session, const sealed_t *sealed)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char source[WORDS_HEX_SIZE];
    int r = session_source(sealed, source);

    if (!r)
        r = pg_exec(crud->pg, &res, "SELECT source FROM sign_in_session WHERE session_id = $1", 1,
                    session->id);
    if (r || !PQntuples(res))
        return r ? r : ERR_SESSION_GONE;
    return words_equal(PQgetvalue(res, 0, 0), source) ? 0 : ERR_SESSION_STALE;
}

/* May it end, in a transaction that locks it? As check_source. is_behind: there are newer rules,
 * which need not have judged it. */
static int check_end(crud_t *crud, const session_t *session, const sealed_t *sealed, ender_t ender,
                     bool is_behind)
{
    int r = session_lock_rules(crud, session, sealed, true);

    if (r == ERR_SESSION_STALE && ender == ENDER_PROVIDER)
        return check_source(crud, session, sealed);
    return !r && is_behind ? ERR_SESSION_STALE : r;
}

/* End it; where newer rules are known than those that would end it, it is over at their edge alone,
 * which is behind. 0 | ERR_SESSION_STALE: newer rules are to judge it | fault. */
static int end_session(crud_t *crud, session_t *session, const sealed_t *sealed, ender_t ender,
                       reply_t *reply)
{
    session_act_t act;
    bool is_behind = false;
    int r = find_newer(crud, session, sealed, &is_behind);

    if (r || (is_behind && ender == ENDER_RULES))
        return r;
    r = crud_begin(crud);
    crud->request_key[0] = '\0';
    session_act_as(&act, crud, session->account, session->user,
                   person_vouched_email(&session->person), "RULES");
    if (!r)
        r = check_end(crud, session, sealed, ender, is_behind);
    if (!r)
        r = session_end(crud, session, &reply->problem);
    r = crud_end(crud, r, &reply->revision);
    session_act_done(&act);
    return r == ERR_SESSION_GONE ? 0 : r;
}

/* It is over, and this is why. ERR_SIGN_IN_DENIED | as end_session. */
static int deny(crud_t *crud, session_t *session, const sealed_t *sealed, ender_t ender,
                const char *why, reply_t *reply)
{
    int r = end_session(crud, session, sealed, ender, reply);

    return r ? r : problem_add(&reply->problem, ERR_SIGN_IN_DENIED, NULL, "%s", why);
}

/* It is admitted: unless it is over by the times of the rules as they are now. */
static int answer_admitted(crud_t *crud, session_t *session, const sealed_t *sealed, reply_t *reply)
{
    _cleanup_(session_done) session_t after = {0};
    int r;

    if (session_is_over(session, bus_now_ms())) {
        r = end_session(crud, session, sealed, ENDER_RULES, reply);
        return r ? r : ERR_SESSION_GONE;
    }
    r = session_load(crud, session->hash, &after);
    if (!r && after.last_active_ms < session->last_active_ms)
        after.last_active_ms = session->last_active_ms; /* what its edge has seen */
    return r ? r : answer_session(&after, reply);
}

/* ---- rules of before ---- */

/* Can other rules be applied to what the provider said last, without asking it again? It is the
 * same provider, asked as the same client for the same, and its word is not too old. */
static bool is_known_enough(const session_t *session, const sealed_t *sealed)
{
    char source[WORDS_HEX_SIZE];

    return !words_equal(session->digest, sealed->digest) && *session->source
           && !session_source(sealed, source) && words_equal(source, session->source)
           && !is_due(session_due_ms(sealed, session->checked_ms));
}

/* Rules that are older than others, which judged it last or are known: of an edge that is behind,
 * perhaps because it cannot reach postern-routes. They may admit or refuse it, at that edge;
 * nothing of what they say is kept, and the provider is not asked for them. */
static int judge_by_older(session_t *session, const sealed_t *sealed, reply_t *reply)
{
    char why[WHY_SIZE] = "";

    if (is_due(session->due_ms) || !session_is_of_client(session, sealed)
        || !is_known_enough(session, sealed))
        return ERR_SESSION_STALE;
    if (!sign_in_admits(sealed->module, sealed->config, &session->person, why, sizeof(why)))
        return problem_add(&reply->problem, ERR_SIGN_IN_DENIED, NULL, "%s", why);
    session_narrow(session, sealed);
    return session_is_over(session, bus_now_ms()) ? ERR_SESSION_GONE
                                                  : answer_session(session, reply);
}

/* ---- asking the provider ---- */

/* Begin to ask it. What the answer needs lies with the run: the database may be away by then. */
static int ask_provider(const session_t *session, run_t *run)
{
    _cleanup_(json_clear_ref) json_t *tokens = person_tokens(&session->person);

    person_done(&run->person);
    person_add_tokens(&run->person, tokens);
    snprintf(run->tokens_hash, sizeof(run->tokens_hash), "%s", session->tokens_hash);
    return run_start(run, PROVIDER_REFRESH,
                     &(provider_ask_t){.refresh_token = session->person.refresh_token,
                                       .access_token = session->person.access_token,
                                       .known = &session->person});
}

/* Begin to ask it, or wait for the call that does. 0: run has a flow | VERB_WAITS: another call
 * asks | ERR_SIGN_IN_UNAVAILABLE | fault. */
static int begin_asking(crud_t *crud, const session_t *session, run_t *run, run_t **run_p,
                        problem_t *problem)
{
    int r;

    if (session->retry_ms > session->now_ms)
        return problem_add(problem, ERR_SIGN_IN_UNAVAILABLE, NULL,
                           "the identity provider did not answer a moment ago");
    r = sealed_check_engine(&run->sealed, problem);
    if (!r && !session_tokens_has(session->id))
        r = session_turn_take(crud, session, run);
    /* tokens that came meanwhile, of a call whose turn was over, are there before the turn is */
    if (!r && *run->turn && session_tokens_has(session->id))
        r = session_turn_give_back(crud, run, false, 0);
    if (r)
        return r;
    return *run->turn ? ask_provider(session, run) : run_pause(crud, run_p, TURN_MS);
}

/* What the provider says now, and what that means for the session; is_behind: newer rules came
 * while it was asked. */
static int judge_person(crud_t *crud, run_t *run, session_t *session, bool is_behind,
                        reply_t *reply)
{
    _cleanup_(person_done) person_t now = {0};
    _cleanup_(json_clear_ref) json_t *old = NULL;
    const ender_t ender = run->is_told ? ENDER_PROVIDER : ENDER_RULES;
    char why[WHY_SIZE] = "";
    int r;

    if (run->step == PROVIDER_DENIED)
        return deny(crud, session, &run->sealed, ender, run->sealed.engine->why(run->engine_flow),
                    reply);
    if (run->step != PROVIDER_DONE && is_behind)
        return ERR_SESSION_STALE;
    if (run->step != PROVIDER_DONE) {
        r = session_turn_put_off(crud, run);
        return r ? r
                 : problem_add(&reply->problem, ERR_SIGN_IN_UNAVAILABLE, NULL, "%s",
                               run->sealed.engine->why(run->engine_flow));
    }
    run->sealed.engine->person(run->engine_flow, &now);
    if (!now.id || strcmp(now.id, session->person.id))
        return deny(crud, session, &run->sealed, ender,
                    "the identity provider speaks of somebody else", reply);
    if (!sign_in_admits(run->sealed.module, run->sealed.config, &now, why, sizeof(why)))
        return deny(crud, session, &run->sealed, ENDER_RULES, why, reply);
    if (is_behind)
        return ERR_SESSION_STALE;
    old = person_tokens(&session->person);
    person_add_tokens(&now, old);
    r = crud_begin(crud);
    crud->request_key[0] = '\0';
    if (!r)
        r = session_checked(crud, session, &run->sealed, &now);
    r = crud_end(crud, r, &reply->revision);
    if (!r)
        session_turn_over(run); /* session_checked has given it back */
    return r;
}

/* One step with the provider. A token that it has just given in place of another is kept before
 * anything else is done, and without the database: whatever comes then, it is there. 0 |
 * -ENOMEM. */
static int take_answer(crud_t *crud, run_t *run, const wait_answer_t *came)
{
    const provider_t *engine = run->sealed.engine;
    _cleanup_(person_done) person_t tokens = {0};
    int r;

    run_step(run, came);
    if (run->are_tokens_kept || !engine->tokens || !engine->tokens(run->engine_flow, &tokens))
        return 0;
    r = session_tokens_keep(crud, run->session, run->tokens_hash, &run->person, &tokens);
    run->are_tokens_kept = !r;
    return r;
}

/* Has the provider said that it vouches for the session's person no more? */
static bool is_disowned(const run_t *run, const session_t *session)
{
    _cleanup_(person_done) person_t now = {0};

    if (run->step == PROVIDER_DONE)
        run->sealed.engine->person(run->engine_flow, &now);
    return run->is_told
           && (run->step == PROVIDER_DENIED
               || (run->step == PROVIDER_DONE
                   && (!now.id || strcmp(now.id, session->person.id) != 0)));
}

/* The session must be checked, and the rules are there. Where newer ones came while the provider
 * was asked, nothing of what it said is kept but new tokens: they ask it themselves. */
static int recheck(crud_t *crud, session_t *session, run_t *run, run_t **run_p, reply_t *reply)
{
    bool is_behind = false;
    int r = 0;

    if (!run->engine_flow) {
        r = begin_asking(crud, session, run, run_p, &reply->problem);
        if (!r)
            r = take_answer(crud, run, NULL);
    }
    if (!r && !run->ended)
        r = run_ask(crud, run, run_p);
    if (!r)
        r = find_newer(crud, session, &run->sealed, &is_behind);
    if (!r)
        r = judge_person(crud, run, session, is_behind, reply);
    if (r == ERR_SESSION_STALE || r == ERR_SIGN_IN_DENIED)
        return session_turn_give_back(
            crud, run, is_disowned(run, session) && !session_is_beyond(session, &run->sealed), r);
    return r ? r : answer_admitted(crud, session, &run->sealed, reply);
}

/* ---- rules that have changed ---- */

/* Rules other than those that admitted it, by what the provider said last. */
static int judge_anew(crud_t *crud, session_t *session, const sealed_t *sealed, reply_t *reply)
{
    char why[WHY_SIZE] = "";
    int r;

    if (!sign_in_admits(sealed->module, sealed->config, &session->person, why, sizeof(why)))
        return deny(crud, session, sealed, ENDER_RULES, why, reply);
    r = crud_begin(crud);
    crud->request_key[0] = '\0';
    if (!r)
        r = session_readmitted(crud, session, sealed);
    r = crud_end(crud, r, &reply->revision);
    return r ? r : answer_admitted(crud, session, sealed, reply);
}

/* Judge a session that these rules have not admitted, or that is due. Where there are newer ones it
 * is nobody's but theirs to keep what they say, or to ask the provider. */
static int judge_session(crud_t *crud, session_t *session, run_t *run, run_t **run_p,
                         reply_t *reply)
{
    bool is_behind = false;
    int r = find_newer(crud, session, &run->sealed, &is_behind);

    if (r)
        return r;
    if (is_behind) {
        r = judge_by_older(session, &run->sealed, reply);
        return r == ERR_SESSION_STALE ? rules_restored_ask(crud, session, run, run_p) : r;
    }
    if (!session_is_of_client(session, &run->sealed))
        return deny(crud, session, &run->sealed, ENDER_RULES,
                    "the route asks its provider as another client now", reply);
    return is_known_enough(session, &run->sealed) ? judge_anew(crud, session, &run->sealed, reply)
                                                  : recheck(crud, session, run, run_p, reply);
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

    if (!r && run && run->engine_flow)
        r = take_answer(crud, run, came);
    if (!r && run && run->lost_to)
        rules_restored_take(run, came);
    if (!r)
        r = load_written(crud, request, &session);
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
    /* One of a module that the route had before is none of this one, even if both say the same, nor
     * is one whose cookie has another name. It is not ended here: the edge may be behind, and the
     * module the newer one; sessions of what is gone are ended by session_gone.c. */
    if (!session_is_of_module(&session, &run->sealed))
        return ERR_SESSION_GONE;
    if (!run->engine_flow && is_good(&session, run->sealed.digest))
        return answer_session(&session, reply);
    return run->engine_flow ? recheck(crud, &session, run, fresh ? &fresh : &run, reply)
                            : judge_session(crud, &session, run, fresh ? &fresh : &run, reply);
}
