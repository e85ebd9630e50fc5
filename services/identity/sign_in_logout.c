/* sign_in.logout: the provider says that somebody has signed out there (OpenID Connect Back-Channel
 * Logout 1.0), and the sessions that came of it end. Anybody can call: nothing is stored before the
 * provider's signature is verified. */
#include "common/base/cleanup.h"
#include "services/identity/logout_once.h"
#include "services/identity/oidc.h"
#include "services/identity/session.h"
#include "services/identity/sign_in.h"
#include "services/identity/sign_in_run.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum {
    TOKEN_MAX = 16 << 10,
    BATCH = 100,   /* sessions that one transaction ends */
    KEY_MS = 8000, /* a token waits for keys that cannot be had now, or that may be newer; with the
                        fetch after that it is within an edge's deadline (20 s) */
    KEY_AGAIN_MS = 1000
};

/* What a verified token ends. */
typedef struct ending {
    const oidc_logout_t *said;
    const char *account, *issuer;
    char client[WORDS_HEX_SIZE], provider[WORDS_HEX_SIZE]; /* as session_provider_hashes */
    char token[WORDS_HEX_SIZE];                            /* what tells it from others: its jti */
    char text[WORDS_HEX_SIZE];                             /* SHA-256 of it, as it came */
    char person[WORDS_HEX_SIZE]; /* whose sign-ins lead to nothing: session_person_hash, of a token
                                    with sid session_sidless_hash; "": it names nobody */
} ending_t;

/* Begin the engine's flow about the token, at first or anew. */
static int start_flow(run_t *run, const request_t *request, problem_t *problem)
{
    const json_t *token = json_object_get(request->body, "token");
    _cleanup_(json_clear_ref) json_t *params = json_pack("{s:[O]}", "logout_token", token);

    if (!params)
        return problem_add(problem, ERR_INVALID_FIELD, "token", "must be text");
    return run_start(run, PROVIDER_ENDED, &(provider_ask_t){.params = params});
}

static int begin_logout(crud_t *crud, const request_t *request, problem_t *problem, run_t **ret_run)
{
    const char *token = json_string_value(json_object_get(request->body, "token"));
    _cleanup_(run_free) run_t *run = run_new();
    int r = sealed_open_any(&run->sealed, sign_in_key(crud), request->body, problem);

    if (r)
        return r;
    if (!token || !*token || strlen(token) > TOKEN_MAX)
        return problem_add(problem, ERR_INVALID_FIELD, "token",
                           "must be a logout token of at most %d bytes", TOKEN_MAX);
    if (!run->sealed.engine || strcmp(run->sealed.module, "oidc"))
        return problem_add(problem, ERR_SIGN_IN_PROVIDER, NULL,
                           "the route does not sign users in with OpenID Connect");
    r = start_flow(run, request, problem);
    if (!r)
        *ret_run = take(run);
    return r;
}

/* Nobody can tell now whether the token is good: its key may be new, or the provider's documents do
 * not come. That can be told in a moment, and what is refused now is lost: few providers send it
 * again. */
static bool is_to_wait(const crud_t *crud, const run_t *run)
{
    const int64_t now = bus_mono_ms();

    return run->step == PROVIDER_UNAVAILABLE && now - run->began_ms < KEY_MS
           && crud->request->deadline_ms - now > KEY_AGAIN_MS;
}

/* The flow that could not tell is over; the next one begins with what is known then. */
static int wait_for_key(crud_t *crud, run_t **run_p)
{
    (*run_p)->sealed.engine->free(&(*run_p)->engine_flow);
    return run_pause(crud, run_p, KEY_AGAIN_MS);
}

static void set_ending(ending_t *self, const run_t *run, const request_t *request)
{
    const char *client = json_string_value(json_object_get(run->sealed.config, "client_id"));
    char id[2 * OIDC_ID_MAX];
    person_t who;

    *self = (ending_t){
        .said = oidc_ended(run->engine_flow),
        .account = run->sealed.account,
        .issuer = json_string_value(json_object_get(run->sealed.config, "issuer")),
    };
    session_client_hash(self->account, self->issuer, client, self->client);
    session_provider_hash(self->client, self->said->sid, self->provider);
    snprintf(id, sizeof(id), "jti\n%s", self->said->jti);
    session_provider_hash(self->client, id, self->token);
    words_hex(json_string_value(json_object_get(request->body, "token")), self->text);
    who = (person_t){.provider_name = "oidc",
                     .provider_url = (char *)self->issuer,
                     .id = (char *)self->said->sub};
    if (!*self->said->sid)
        session_person_hash(self->account, &who, self->person);
    else if (*self->said->sub)
        session_sidless_hash(self->account, &who, self->person);
}

static int say_used(int r, problem_t *problem)
{
    return r == ERR_SIGN_IN_PROVIDER ? problem_add(
               problem, r, NULL, "the logout token is not valid: its jti was used before")
                                     : r;
}

static logout_once_t once_of(const ending_t *ending)
{
    return (logout_once_t){
        .id = ending->token, .text = ending->text, .until_s = ending->said->too_old_s};
}

/* It is known for at least as long as a sign-in is under way whose provider has vouched, however
 * late the token came. */
static int remember_token(crud_t *crud, const ending_t *ending)
{
    char until[24];

    snprintf(until, sizeof(until), "%" PRId64, ending->said->too_old_s);
    return pg_exec(crud->pg, NULL,
                   "INSERT INTO sign_in_logout (token_hash, provider_hash, before_ms, expires_at, "
                   "text_hash) VALUES ($1, $2, "
                   "floor(1000 * extract(epoch FROM clock_timestamp())), "
                   "greatest(to_timestamp($3::bigint), now() + interval '10 min'), $4) "
                   "ON CONFLICT DO NOTHING",
                   4, ending->token, ending->provider, until, ending->text);
}

/* Some of the sessions that are to end. Of a person whose session at the provider the token names,
 * it is that one, and any of which the provider did not say which it is; else all of them. In the
 * order of their ids: several tokens may end the same ones at once. Of either kind no more are read
 * than are ended now: each step would cost as much as all of them. */
static int find_sessions(crud_t *crud, const ending_t *ending, PGresult **ret_res)
{
    char most[12];

    snprintf(most, sizeof(most), "%d", BATCH);
    return pg_exec(crud->pg, ret_res,
                   "(SELECT s.session_id, u.id, " SESSION_SUBJECT " FROM sign_in_session s "
                   "JOIN application_session a ON a.id = s.session_id "
                   "JOIN application_user u ON u.id = a.application_user_id "
                   "WHERE s.provider_hash = $5 AND s.provider_hash > '' "
                   "ORDER BY 1 LIMIT $6::int) "
                   "UNION (SELECT s.session_id, u.id, " SESSION_SUBJECT " FROM application_user u "
                   "JOIN application_session a ON a.account_id = u.account_id "
                   "     AND a.application_user_id = u.id "
                   "JOIN sign_in_session s ON s.session_id = a.id "
                   "WHERE u.account_id = $1 AND u.provider_url = $2 AND u.provider_user_id = $3 "
                   "AND s.module = 'oidc' AND coalesce(s.client_hash, $4) = $4 "
                   "AND ($5 = '' OR coalesce(s.provider_hash, '') = '') "
                   "ORDER BY 1 LIMIT $6::int) ORDER BY 1 LIMIT $6::int",
                   6, ending->account, ending->issuer, ending->said->sub, ending->client,
                   ending->provider, most);
}

/* Up to BATCH of them, in a transaction; with the last ones the token is remembered, so that one
 * which did not come to its end may come again. */
static int end_some(crud_t *crud, const void *arg, reply_t *reply, bool *ret_more)
{
    const ending_t *ending = arg;
    _cleanup_(pgresult_clear) PGresult *found = NULL;
    int r = 0;

    /* in the order in which a sign-in takes both */
    if (*ending->person)
        r = session_end_person(crud, ending->person);
    if (!r)
        r = session_lock_provider(crud, ending->provider);
    if (!r)
        r = find_sessions(crud, ending, &found);
    if (!r)
        r = session_end_found(crud, ending->account, "PROVIDER", found, &reply->problem);
    *ret_more = !r && PQntuples(found) == BATCH;
    return r || *ret_more ? r : remember_token(crud, ending);
}

/* One step: sessions of a token may be very many, and sign-outs of others wait for this worker. One
 * that ends nothing waits for edges, too: the sessions may have ended by the same token a moment
 * ago, or by something else. */
static int finish_logout(crud_t *crud, run_t **run_p, const request_t *request, reply_t *reply)
{
    run_t *run = *run_p;
    logout_once_t once;
    ending_t ending;
    bool more;
    int r;

    set_ending(&ending, run, request);
    once = once_of(&ending);
    r = say_used(logout_once_step(crud, &once, end_some, &ending, reply, &more), &reply->problem);
    if (!r && more)
        return run_go_on(crud, run_p);
    if (!r && !reply->revision)
        r = session_answer_gone(crud, reply);
    if (!r && !(reply->body = json_object()))
        r = -ENOMEM;
    return r;
}

int on_sign_in_logout(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    const wait_answer_t *came;
    run_t *run = crud_resumed(crud, &came);
    int r = 0;

    if (!run) {
        r = begin_logout(crud, request, &reply->problem, &fresh);
        run = fresh;
    } else if (!run->engine_flow) {
        r = start_flow(run, request, &reply->problem);
    }
    if (!r)
        r = run_advance(crud, run, fresh ? &fresh : &run, came);
    if (!r && is_to_wait(crud, run)) {
        if (key_wait_take(&run->key_wait, run->sealed.account))
            return wait_for_key(crud, fresh ? &fresh : &run);
        /* whoever has the places, its edge keeps it until there is one */
        r = problem_add(&reply->problem, ERR_BUSY, NULL, "as many tokens wait for keys as may");
    }
    if (!r)
        r = run_refusal(run, &reply->problem);
    if (r)
        return r;
    key_wait_done(&run->key_wait); /* it may pause for long */
    return finish_logout(crud, fresh ? &fresh : &run, request, reply);
}
