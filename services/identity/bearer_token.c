#include "services/identity/bearer_token.h"
#include "common/base/cleanup.h"
#include "services/identity/rules.h"
#include "services/identity/session_vouch.h"
#include "services/identity/sign_in_run.h"
#include "services/identity/user_jwt.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    TOKEN_MAX = 8 << 10,
    ASK_AGAIN_MS = 600000,              /* the issuer may have withdrawn its key */
    LASTS_MAX_S = 10 * 366 * 24 * 3600, /* as far as anybody counts */
    ID_HEX = 32,                        /* digits of who it is */
    WHY_SIZE = 200,
    PLACE_SIZE = 2560 /* of an issuer and a sub, with what is between them */
};

/* Who has a verified token, and by which rules. */
typedef struct bearer {
    const sealed_t *sealed;
    person_t person;
    char id[ID_MAX]; /* of its own kind: the API has no user for it */
    int64_t now_ms, expires_ms;
} bearer_t;

static void bearer_done(bearer_t *self)
{
    person_done(&self->person);
}

static int begin_verifying(crud_t *crud, const request_t *request, problem_t *problem,
                           run_t **ret_run)
{
    const char *token = json_string_value(json_object_get(request->body, "token"));
    _cleanup_(run_free) run_t *run = run_new();
    _cleanup_(json_clear_ref) json_t *params = NULL;
    int r = sealed_open(&run->sealed, sign_in_key(crud), request->body, problem);

    if (r)
        return r;
    if (!token || !*token || strlen(token) > TOKEN_MAX)
        return problem_add(problem, ERR_INVALID_FIELD, "token",
                           "must be a token of at most %d bytes", TOKEN_MAX);
    if (!run->sealed.engine || strcmp(run->sealed.module, "oidc")
        || !json_is_true(json_object_get(run->sealed.config, "bearer_tokens")))
        return ERR_SESSION_GONE;
    params = json_pack("{s:[s]}", "bearer_token", token);
    if (!params)
        return problem_add(problem, ERR_INVALID_FIELD, "token", "must be text");
    r = run_start(run, PROVIDER_BEARER, &(provider_ask_t){.params = params});
    if (!r)
        *ret_run = take(run);
    return r;
}

/* What the engine found. What is wrong with the issuer is nobody's token's fault. */
static int judge_run(const run_t *run, problem_t *problem)
{
    if (run->step == PROVIDER_DONE)
        return 0;
    return problem_add(problem,
                       run->step == PROVIDER_DENIED ? ERR_SESSION_GONE : ERR_SIGN_IN_UNAVAILABLE,
                       NULL, "%s", run->sealed.engine->why(run->engine_flow));
}

/* The same program or person is the same, whichever token it brings. */
static void name_bearer(bearer_t *self)
{
    char text[PLACE_SIZE], hex[WORDS_HEX_SIZE];

    snprintf(text, sizeof(text), "%s\n%s", self->person.provider_url, self->person.id);
    words_hex(text, hex);
    snprintf(self->id, sizeof(self->id), "bearer_%.*s", ID_HEX, hex);
}

/* Is it in time still, and do the rules admit who has it? */
static int admit_bearer(bearer_t *self, const run_t *run, problem_t *problem)
{
    char why[WHY_SIZE] = "";
    int64_t most_s;

    self->now_ms = bus_now_ms();
    most_s = self->now_ms / 1000 + LASTS_MAX_S;
    run->sealed.engine->person(run->engine_flow, &self->person);
    self->sealed = &run->sealed;
    self->expires_ms =
        1000 * (self->person.session_until_s < most_s ? self->person.session_until_s : most_s);
    if (self->expires_ms <= self->now_ms)
        return problem_add(problem, ERR_SESSION_GONE, NULL,
                           "the bearer token is not valid: it has expired");
    if (!sign_in_admits(run->sealed.module, run->sealed.config, &self->person, why, sizeof(why)))
        return problem_add(problem, ERR_SIGN_IN_DENIED, NULL, "%s", why);
    name_bearer(self);
    return 0;
}

/* Drive the engine to its end: *self is for bearer_done in any case, while the run lasts. */
static int verify_asked(crud_t *crud, const request_t *request, problem_t *problem, run_t **fresh_p,
                        bearer_t *self)
{
    const wait_answer_t *came;
    run_t *run = crud_resumed(crud, &came);
    int r = 0;

    if (!run) {
        r = begin_verifying(crud, request, problem, fresh_p);
        run = *fresh_p;
    }
    if (!r)
        r = run_advance(crud, run, *fresh_p ? fresh_p : &run, came);
    if (!r)
        r = judge_run(run, problem);
    return r ? r : admit_bearer(self, run, problem);
}

/* As session_json has a session. */
static json_t *render_session(const bearer_t *self)
{
    const person_t *who = &self->person;
    const char *email = person_vouched_email(who);
    const json_int_t now = self->now_ms;

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:s*, s:O, s:I, s:I, s:I, s:i, s:I, s:I}",
                     "id", self->id, "user", self->id, "route", self->sealed->route, "digest",
                     self->sealed->digest, "provider_user_id", who->id, "name",
                     who->name ? who->name : "", "email", email ? email : "", "email_unverified",
                     person_unverified_email(who), "groups", who->groups, "created_ms", now,
                     "expires_ms", (json_int_t)self->expires_ms, "due_ms", now + ASK_AGAIN_MS,
                     "inactivity_ms", 0, "last_active_ms", now, "checked_ms", now);
}

int on_bearer_token_check(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    _cleanup_(bearer_done) bearer_t bearer = {0};
    int r = verify_asked(crud, request, &reply->problem, &fresh, &bearer);

    if (r)
        return r;
    reply->body = json_pack("{s:o, s:I}", "session", render_session(&bearer), "now_ms",
                            (json_int_t)bearer.now_ms);
    return reply->body ? 0 : -ENOMEM;
}

int on_bearer_token_vouch(crud_t *crud, const request_t *request, reply_t *reply)
{
    _cleanup_(run_free) run_t *fresh = NULL;
    _cleanup_(bearer_done) bearer_t bearer = {0};
    _cleanup_(free_mem) char *jwt = NULL;
    int r = verify_asked(crud, request, &reply->problem, &fresh, &bearer);

    if (!r)
        r = user_jwt_make(crud->key,
                          &(user_jwt_t){.issuer = sign_in_url(),
                                        .audience = bearer.sealed->route,
                                        .subject = bearer.id,
                                        .person = &bearer.person,
                                        .now_s = bearer.now_ms / 1000,
                                        .expires_s = bearer.expires_ms / 1000},
                          &jwt);
    return r ? r : vouch_answer(bearer.expires_ms, bearer.now_ms, jwt, reply);
}
