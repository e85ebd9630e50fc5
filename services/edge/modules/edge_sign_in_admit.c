/* A request goes upstream by a session that identity vouches for, or not at all: what is known of
 * its session, what has to be asked, and what it gets that has none. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/modules/sign_in_rules.h"
#include "common/base/err.h"

enum {
    CHECK_WAIT_MS = 30000,
    VOUCH_WAIT_MS = 10000,
    TRIES_MAX = 3
};


sign_in_bound_t
edge_sign_in_bind(const edge_sign_in_state_t *state, sign_in_t *rules)
{
    const char       *route = state->ctx->route->id;
    const ngx_str_t  *host = &state->ctx->host;
    sign_in_bound_t   out;

    if (!state->machine) {
        return sign_in_bind_at(rules, route, (char *) host->data, host->len);
    }
    ngx_memcpy(out.bytes, sign_in_bind(rules, route), sizeof(out.bytes));
    return out;
}


static sign_in_bound_t
bound_of(const edge_sign_in_state_t *state)
{
    return edge_sign_in_bind(state, state->config);
}


/* NGX_OK | NGX_ERROR. */
static ngx_int_t
add_challenge(edge_sign_in_state_t *state, const char *value)
{
    const header_t  challenge = {
        .name = "WWW-Authenticate", .name_len = 16, .lower = "www-authenticate",
        .value = (char *) value, .value_len = ngx_strlen(value)
    };

    return edge_header_answer(state->r, &challenge);
}


/* One answer for all tokens that are not good here: who guesses learns nothing (RFC 6750 3). */
intptr_t
edge_sign_in_refuse_machine(edge_sign_in_state_t *state)
{
    if (add_challenge(state, "Bearer realm=\"service\", error=\"invalid_token\"") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_NEEDED);
}


/* The token is good, and the rules do not admit who has it. Nobody is offered to sign in as
 * somebody else. */
intptr_t
edge_sign_in_deny_machine(edge_sign_in_state_t *state)
{
    if (add_challenge(state, "Bearer realm=\"service\", error=\"insufficient_scope\"") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_deny(state->r, state->ctx, state->me, ERR_EDGE_SIGN_IN_DENIED, 0);
}


/* Nobody is signed in: a person is sent to sign in, anything else is told so. */
static intptr_t
refuse_stranger(edge_sign_in_state_t *state)
{
    ngx_str_t            target;
    const char          *challenge = "Postern-Session realm=\"sign-in\"";
    ngx_http_request_t  *r = state->r;

    if (state->machine) {
        return edge_sign_in_refuse_machine(state);
    }
    if (state->back) {
        return edge_sign_in_fail(state);
    }
    if (edge_sign_in_navigates(r, state->ctx)) {
        target = edge_sign_in_target(r, &r->unparsed_uri);
        return edge_sign_in_begin(state, &target, 0);
    }
    if (state->config->bearer_tokens) {
        challenge = "Postern-Session realm=\"sign-in\", Bearer realm=\"service\"";
    }
    if (add_challenge(state, challenge) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_NEEDED);
}


/* ---- going upstream ---- */

static intptr_t
go_by_session(edge_sign_in_state_t *state, unsigned counter)
{
    edge_ctx_t  *ctx = state->ctx;

    if (edge_sign_in_machine_hide(state) != NGX_OK
        || edge_sign_in_tell(state->r, ctx, state->session) != NGX_OK
        || (state->jwt.len
            && edge_sign_in_jwt_tell(state->r, ctx, &state->jwt) != NGX_OK))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state->admitted = 1;
    edge_module_count(state->me, counter);
    if (!state->machine) {
        edge_sign_in_touch(state->session,
                           state->found && state->step == SIGN_IN_STEP_NEW);
    }
    edge_sign_in_live_add(state);
    ctx->session = state->named;
    edge_streams_again(ctx);   /* under the session's key, too */
    return NGX_DECLINED;
}


/* Without a signed word, where identity is away: an upstream that asks for one refuses it by
 * itself, and others learn by the other headers who it is. */
static intptr_t
go_unvouched(edge_sign_in_state_t *state, unsigned counter)
{
    state->vouched = 1;
    edge_module_count(state->me, SIGN_IN_WITHOUT_JWT);
    return go_by_session(state, counter);
}


/* The session is good: with the signed word of it, where that is on and may have to be waited
 * for. */
static intptr_t
pass_by_session(edge_sign_in_state_t *state, unsigned counter)
{
    if (state->back) {
        return edge_sign_in_go_back(state);
    }
    if (state->vouched || !edge_sign_in_jwt_is_on()) {
        return go_by_session(state, counter);
    }
    switch (edge_sign_in_vouch(state)) {
    case NGX_OK:
        state->vouched = 1;
        return go_by_session(state, counter);
    case NGX_AGAIN:
        state->step = SIGN_IN_STEP_VOUCH;
        state->how = counter;
        return edge_module_suspend(state->r, state->ctx, state->me, VOUCH_WAIT_MS);
    case NGX_DECLINED:
        return edge_ask_is_there() ? edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_UNAVAILABLE)
                                   : go_unvouched(state, counter);
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}


intptr_t
edge_sign_in_pass_without(edge_sign_in_state_t *state)
{
    if (edge_sign_in_machine_hide(state) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state->passed = 1;
    return NGX_DECLINED;
}


/* Nobody can be asked: what is known is trusted for a while, or nobody is admitted; nor is a
 * session of which this worker heard meanwhile that it has ended. */
static intptr_t
admit_unasked(edge_sign_in_state_t *state)
{
    if (state->session
        && state->session->generation
           == sessions_generation(edge_sign_in_sessions(), state->hash)
        && edge_sign_in_is_trusted(state->session, bound_of(state).bytes))
    {
        return pass_by_session(state, SIGN_IN_ADMITTED_TRUSTED);
    }
    edge_module_count(state->me, SIGN_IN_UNANSWERED);
    return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_UNAVAILABLE);
}


static intptr_t
check_session(edge_sign_in_state_t *state)
{
    if (state->tries++ == TRIES_MAX) {
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    if (edge_sign_in_check(state) != NGX_OK) {
        return admit_unasked(state);
    }
    state->step = SIGN_IN_STEP_CHECK;
    return edge_module_suspend(state->r, state->ctx, state->me, CHECK_WAIT_MS);
}


/* Identity vouches for the session: unless it ended since it was asked. */
static intptr_t
admit_checked(edge_sign_in_state_t *state)
{
    session_t  *session = state->session;

    if (session->generation != sessions_generation(edge_sign_in_sessions(), state->hash)
        || session->asked_ms < edge_sign_in_doubted())
    {
        return check_session(state);
    }
    switch (sign_in_judge(session, bound_of(state).bytes, edge_sign_in_now(), true, 0)) {
    case SIGN_IN_ADMIT:
        return pass_by_session(state, SIGN_IN_ADMITTED_ASKED);
    case SIGN_IN_ASK_RULES:
        if (state->sealed) {   /* identity has looked: its clock is behind this machine's */
            return pass_by_session(state, SIGN_IN_ADMITTED_ASKED);
        }
        state->sealed = 1;
        return check_session(state);
    default:   /* over, or idle by identity's own word */
        return refuse_stranger(state);
    }
}


/* Is what this worker knew when it was asked_ms known no more for sure? It has lost touch with the
 * session log, and may not have heard that the session has ended. Counted. */
static ngx_uint_t
is_out_of_touch(const edge_sign_in_state_t *state, int64_t asked_ms)
{
    if (edge_session_log_is_current() && asked_ms >= edge_sign_in_doubted()) {
        return 0;
    }
    edge_module_count(state->me, SIGN_IN_OUT_OF_TOUCH);
    return 1;
}


/* May the session be used on, as far as this worker knows? It may have ended while its word was
 * waited for, and this worker may have lost touch. */
static ngx_uint_t
is_still_good(const edge_sign_in_state_t *state)
{
    const session_t  *session = state->session;

    return session->generation == sessions_generation(edge_sign_in_sessions(), state->hash)
           && session->asked_ms >= edge_sign_in_doubted()
           && (state->how != SIGN_IN_ADMITTED_CACHED
               || !is_out_of_touch(state, session->asked_ms))
           && sign_in_judge(session, bound_of(state).bytes, edge_sign_in_now(), true, 0)
              == SIGN_IN_ADMIT;
}


intptr_t
edge_sign_in_after_vouch(edge_sign_in_state_t *state)
{
    switch (state->outcome) {
    case 0:
        state->vouched = 1;
        break;
    case ERR_SESSION_GONE:
        return check_session(state);
    case ASK_NOBODY:
    case ASK_LATE:
        state->vouched = 1;
        edge_module_count(state->me, SIGN_IN_WITHOUT_JWT);
        break;
    default:
        return edge_sign_in_deny_unanswered(state);
    }
    return is_still_good(state) ? go_by_session(state, state->how) : check_session(state);
}


intptr_t
edge_sign_in_after_check(edge_sign_in_state_t *state)
{
    switch (state->outcome) {
    case 0:
        return admit_checked(state);
    case ERR_SESSION_GONE:
        if (state->machine) {
            edge_sign_in_machine_refuse(state, ERR_SESSION_GONE);
        }
        return refuse_stranger(state);
    case ERR_SIGN_IN_DENIED:
        if (state->machine) {
            edge_sign_in_machine_refuse(state, ERR_SIGN_IN_DENIED);
            return edge_sign_in_deny_machine(state);
        }
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_DENIED);
    case ERR_SIGN_IN_UNAVAILABLE:   /* the provider's, which had to be asked */
        return edge_sign_in_deny_unanswered(state);
    case ERR_SESSION_STALE:
        if (state->sealed) {
            return edge_sign_in_deny_unanswered(state);
        }
        state->sealed = 1;
        return check_session(state);
    default:
        return admit_unasked(state);
    }
}


/* Of what is found only as much is copied as a request needs that goes on. */
static intptr_t
take_found(edge_sign_in_state_t *state, const session_t *found)
{
    size_t  size = offsetof(session_t, text);
    int     i;

    for (i = 0; i < SESSION_TEXTS; i++) {
        size += found->lens[i];
    }
    state->session = ngx_palloc(state->r->pool, size);
    if (state->session == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(state->session, found, size);
    state->found = 1;
    return NGX_OK;
}


intptr_t
edge_sign_in_admit(edge_sign_in_state_t *state)
{
    session_t          found;
    sign_in_verdict_t  verdict;

    if (state->token.len == 0) {
        return refuse_stranger(state);
    }
    if (!sessions_find(edge_sign_in_sessions(), state->hash, &found)) {
        return check_session(state);
    }
    if (take_found(state, &found) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    verdict = sign_in_judge(&found, bound_of(state).bytes, edge_sign_in_now(),
                            edge_session_log_is_current(),
                            edge_sign_in_doubted());
    switch (verdict) {
    case SIGN_IN_ADMIT:
        return pass_by_session(state, SIGN_IN_ADMITTED_CACHED);
    case SIGN_IN_OVER:
        return refuse_stranger(state);
    default:
        (void) is_out_of_touch(state, found.asked_ms);
        state->sealed = state->machine || verdict == SIGN_IN_ASK_RULES;
        return check_session(state);
    }
}
