/* Sign-in at the edge: a request goes upstream by a session that identity vouches for, or not at
 * all. What a session is, and who somebody is, identity decides (edge_sign_in_check.c); the edge
 * carries what is sealed for it, and sets cookies.
 *
 * <path of the route>/auth/ is the edge's own: authn begins a sign-in, done takes the code that
 * the sign-in host (http/edge_sign_in_host.c) sends the browser back with, logout ends the
 * session. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/http/params.h"
#include "services/edge/modules/sign_in_rules.h"
#include "common/base/err.h"

enum {
    CHECK_WAIT_MS = 30000,
    VOUCH_WAIT_MS = 10000,
    BEGIN_MS = 5000,
    REDEEM_MS = 15000,
    END_MS = 10000,
    TRIES_MAX = 3,
    TARGET_MAX = 2048,
    AGENT_MAX = 512,
    TOKEN_LEN = 43
};

const char *const  edge_sign_in_counters[] = {
    "admitted_cached", "admitted_asked", "admitted_trusted", "sent_away",
    "signed_in", "signed_out", "asks", "unanswered", "requests_over", "jwt_asks",
    "without_jwt", NULL
};

static module_id_t
module_of(const route_t *route)
{
    return (module_id_t) __builtin_ctz(route->enabled & SIGN_IN_MODULES);
}


static const u_char *
bound_of(const edge_sign_in_state_t *state)
{
    return sign_in_bind(state->config, state->ctx->route->id);
}


static intptr_t
deny_request(edge_sign_in_state_t *state, ngx_uint_t code)
{
    if (code == ERR_EDGE_SIGN_IN_DENIED || code == ERR_EDGE_SIGN_IN_FAILED) {
        edge_sign_in_offer(state->r, state->ctx, state->ctx->route,
                           &state->ctx->authority,
                           code == ERR_EDGE_SIGN_IN_DENIED);
    }
    return edge_deny(state->r, state->ctx, state->me, code, 0);
}


/* ---- what is asked ---- */

static sign_in_text_t
header_of(ngx_http_request_t *r, const char *name, size_t len)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == len
                && ngx_memcmp(header[i].lowcase_key, name, len) == 0)
            {
                return (sign_in_text_t) { (char *) header[i].value.data,
                                          header[i].value.len };
            }
        }
    }
    return (sign_in_text_t) { NULL, 0 };
}


#define HEADER(r, name)  header_of(r, name, sizeof(name) - 1)


static sign_in_asked_t
asked_of(ngx_http_request_t *r, const edge_ctx_t *ctx, ngx_uint_t methods)
{
    return (sign_in_asked_t) {
        .get = (r->method & methods) != 0,
        .upgrade = ctx->upgrade || r->headers_in.upgrade,
        .fetch_mode = HEADER(r, "sec-fetch-mode"),
        .fetch_dest = HEADER(r, "sec-fetch-dest"),
        .accept = HEADER(r, "accept")
    };
}


static ngx_uint_t
navigates(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    const sign_in_asked_t  asked = asked_of(r, ctx, NGX_HTTP_GET|NGX_HTTP_HEAD);

    return sign_in_navigates(&asked);
}


static ngx_uint_t
may_leave(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    const sign_in_asked_t  asked = asked_of(r, ctx, NGX_HTTP_GET|NGX_HTTP_POST);

    return sign_in_may_leave(&asked, HEADER(r, "sec-fetch-site"));
}


/* The form by which the browser goes on; NULL: there is none. */
static const edge_form_t *
take_form(ngx_pool_t *pool, const ask_answer_t *answer)
{
    edge_form_t  *form = ngx_palloc(pool, sizeof(edge_form_t));

    return form && edge_sign_in_form_take(pool, answer, form) == NGX_OK ? form : NULL;
}


static void
on_own_answer(asker_t *asker, const ask_answer_t *answer)
{
    ngx_pool_t            *pool;
    edge_sign_in_state_t  *state;

    state = (edge_sign_in_state_t *) ((char *) asker
                                      - offsetof(edge_sign_in_state_t, asker));
    pool = state->r->pool;
    state->asking = 0;
    state->outcome = answer->code;
    if (answer->code == 0 && state->step == SIGN_IN_STEP_BEGIN) {
        state->location = edge_sign_in_text(pool, answer, "location",
                                            EDGE_SIGN_IN_LOCATION_MAX);
        state->value = edge_sign_in_text(pool, answer, "nonce", TOKEN_LEN);
    }
    if (answer->code == 0 && state->step == SIGN_IN_STEP_REDEEM) {
        state->value = edge_sign_in_text(pool, answer, "token", TOKEN_LEN);
        state->target = edge_sign_in_text(pool, answer, "target", TARGET_MAX);
    }
    if (answer->code == 0 && state->step == SIGN_IN_STEP_END) {
        state->form = take_form(pool, answer);
        state->location = edge_sign_in_text(pool, answer, "location",
                                            EDGE_SIGN_IN_LOCATION_MAX);
    }
    edge_module_resume(state->ctx);
}


/* The request is asked for. What run is to return. */
static intptr_t
wait_for_answer(edge_sign_in_state_t *state, sign_in_step_t step, unsigned ms)
{
    state->asking = 1;
    state->step = step;
    return edge_module_suspend(state->r, state->ctx, state->me, ms + 1000);
}


/* Ask for the request alone. What run is to return. */
static intptr_t
ask_identity(edge_sign_in_state_t *state, sign_in_step_t step, const char *verb,
    const u_char *start, const pack_t *pk, unsigned ms)
{
    const route_t  *route = state->ctx->route;
    ngx_str_t       account = { route->account_id_len, (u_char *) route->account_id };

    state->asker.answered = on_own_answer;
    if (pk->full
        || edge_ask(&state->asker, verb, &account, start, pk->at - start, ms) != NGX_OK)
    {
        edge_module_count(state->me, SIGN_IN_UNANSWERED);
        return deny_request(state, ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    return wait_for_answer(state, step, ms);
}


/* The edge's page for what identity did not grant. */
static intptr_t
deny_unanswered(edge_sign_in_state_t *state)
{
    ngx_uint_t  code = edge_sign_in_error(state->outcome);

    if (code == ERR_EDGE_SIGN_IN_UNAVAILABLE) {
        edge_module_count(state->me, SIGN_IN_UNANSWERED);
        ngx_log_error(NGX_LOG_WARN, state->r->connection->log, 0,
                      "postern: identity gives no answer to a sign-in of route "
                      "%s: %d", state->ctx->route->id, state->outcome);
    }
    return deny_request(state, code);
}


/* ---- beginning ---- */

/* Path and query as text of a URL: bytes that it may not have are percent-encoded. "/" where that
 * is too long. */
static ngx_str_t
encoded_target(ngx_http_request_t *r, const ngx_str_t *target)
{
    size_t       i;
    u_char      *p;
    ngx_str_t    out, root = ngx_string("/");

    if (target->len == 0 || target->len > TARGET_MAX) {
        return root;
    }
    out.data = ngx_pnalloc(r->pool, 3 * target->len);
    if (out.data == NULL) {
        return root;
    }
    for (p = out.data, i = 0; i < target->len; i++) {
        if (target->data[i] > 0x20 && target->data[i] < 0x7f
            && target->data[i] != '\\')
        {
            *p++ = target->data[i];
        } else {
            *p++ = '%';
            p = ngx_hex_dump(p, &target->data[i], 1);
        }
    }
    out.len = p - out.data;
    return sign_in_is_target((char *) out.data, out.len) ? out : root;
}


/* What says whose rules they are: all of them, which may be long, where there is nothing else. */
static void
put_place(pack_t *pk, const sign_in_t *config)
{
    if (config->place_len) {
        edge_sign_in_put(pk, "place", config->place, config->place_len);
    } else {
        edge_sign_in_put(pk, "sealed", config->sealed, config->sealed_len);
    }
}


/* other: the provider is to ask who it is, even if it knows. */
static intptr_t
begin_sign_in(edge_sign_in_state_t *state, const ngx_str_t *target,
    ngx_uint_t other)
{
    pack_t       pk;
    u_char      *start;
    edge_ctx_t  *ctx = state->ctx;
    sign_in_t   *config = state->config;

    if (edge_sign_in_body(state->r->pool, &pk, &start,
                          (config->place_len ? config->place_len : config->sealed_len)
                          + ctx->authority.len
                          + target->len + TOKEN_LEN,
                          3 + (state->nonce.len ? 1 : 0) + other) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    put_place(&pk, config);
    edge_sign_in_put(&pk, "host", ctx->authority.data, ctx->authority.len);
    edge_sign_in_put(&pk, "target", target->data, target->len);
    if (state->nonce.len) {
        edge_sign_in_put(&pk, "nonce", state->nonce.data, state->nonce.len);
    }
    if (other) {
        pack_str(&pk, "force", 5);
        pack_bool(&pk, true);
    }
    return ask_identity(state, SIGN_IN_STEP_BEGIN, "sign_in.begin", start, &pk, BEGIN_MS);
}


/* Content handler. */
static ngx_int_t
send_away(ngx_http_request_t *r)
{
    edge_ctx_t            *ctx = edge_ctx(r);
    edge_sign_in_state_t  *state;

    state = edge_module_state_if_any(ctx, module_of(ctx->route));
    return edge_sign_in_redirect(r, ctx, &state->location);
}


/* Content handler. */
static ngx_int_t
send_form(ngx_http_request_t *r)
{
    edge_ctx_t            *ctx = edge_ctx(r);
    edge_sign_in_state_t  *state;

    state = edge_module_state_if_any(ctx, module_of(ctx->route));
    return edge_sign_in_form(r, ctx, state->form);
}


static intptr_t
redirect_to_sign_in(edge_sign_in_state_t *state)
{
    ngx_str_t  name = { state->config->nonce_cookie_len,
                        (u_char *) state->config->nonce_cookie };

    if (state->outcome != 0 || state->location.len == 0
        || state->value.len != TOKEN_LEN)
    {
        return deny_unanswered(state);
    }
    if (edge_sign_in_set_cookie(state->r, &name, &state->value,
                                "; SameSite=Lax; Max-Age=900") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_module_count(state->me, SIGN_IN_SENT_AWAY);
    state->refused = 1;
    edge_sign_in_conceal(state->r, state->ctx);   /* where it is sent has the ticket */
    state->r->content_handler = send_away;
    return NGX_OK;
}


/* One answer for all tokens that are not good here: who guesses learns nothing. */
static intptr_t
refuse_machine(edge_sign_in_state_t *state)
{
    const header_t  challenge = {
        .name = "WWW-Authenticate", .name_len = 16, .lower = "www-authenticate",
        .value = "Bearer realm=\"service\", error=\"invalid_token\"", .value_len = 45
    };

    if (edge_header_answer(state->r, &challenge) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return deny_request(state, ERR_EDGE_SIGN_IN_NEEDED);
}


/* Nobody is signed in: a person is sent to sign in, anything else is told so. */
static intptr_t
refuse_stranger(edge_sign_in_state_t *state)
{
    ngx_str_t            target;
    ngx_http_request_t  *r = state->r;
    const header_t       challenge = {
        .name = "WWW-Authenticate", .name_len = 16, .lower = "www-authenticate",
        .value = "Postern-Session realm=\"sign-in\"", .value_len = 31
    };

    if (state->machine) {
        return refuse_machine(state);
    }
    if (navigates(r, state->ctx)) {
        target = encoded_target(r, &r->unparsed_uri);
        return begin_sign_in(state, &target, 0);
    }
    if (edge_header_answer(r, &challenge) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return deny_request(state, ERR_EDGE_SIGN_IN_NEEDED);
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
        edge_sign_in_touch(state->session);
    }
    edge_sign_in_live_add(state);
    ctx->session = state->hex;
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
        return edge_ask_is_there() ? deny_request(state, ERR_EDGE_SIGN_IN_UNAVAILABLE)
                                   : go_unvouched(state, counter);
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
}


static intptr_t
pass_without_session(edge_sign_in_state_t *state)
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
        && edge_sign_in_is_trusted(state->session, bound_of(state)))
    {
        return pass_by_session(state, SIGN_IN_ADMITTED_TRUSTED);
    }
    edge_module_count(state->me, SIGN_IN_UNANSWERED);
    return deny_request(state, ERR_EDGE_SIGN_IN_UNAVAILABLE);
}


static intptr_t
check_session(edge_sign_in_state_t *state)
{
    if (state->tries++ == TRIES_MAX) {
        return deny_request(state, ERR_EDGE_SIGN_IN_UNAVAILABLE);
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
    switch (sign_in_judge(session, bound_of(state), edge_sign_in_now(), true, 0)) {
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


/* May the session be used on, as far as this worker knows? It may have ended while its word was
 * waited for, and this worker may have lost touch. */
static ngx_uint_t
is_still_good(const edge_sign_in_state_t *state)
{
    const session_t  *session = state->session;

    return session->generation == sessions_generation(edge_sign_in_sessions(), state->hash)
           && session->asked_ms >= edge_sign_in_doubted()
           && (state->how != SIGN_IN_ADMITTED_CACHED || edge_session_log_is_current())
           && sign_in_judge(session, bound_of(state), edge_sign_in_now(), true, 0)
              == SIGN_IN_ADMIT;
}


static intptr_t
after_vouch(edge_sign_in_state_t *state)
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
        return deny_unanswered(state);
    }
    return is_still_good(state) ? go_by_session(state, state->how) : check_session(state);
}


static intptr_t
after_check(edge_sign_in_state_t *state)
{
    switch (state->outcome) {
    case 0:
        return admit_checked(state);
    case ERR_SESSION_GONE:
        if (state->machine) {
            edge_sign_in_machine_refuse(state);
        }
        return refuse_stranger(state);
    case ERR_SIGN_IN_DENIED:
        return deny_request(state, ERR_EDGE_SIGN_IN_DENIED);
    case ERR_SIGN_IN_UNAVAILABLE:   /* the provider's, which had to be asked */
        return deny_unanswered(state);
    case ERR_SESSION_STALE:
        if (state->sealed) {
            return deny_unanswered(state);
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


static intptr_t
admit_request(edge_sign_in_state_t *state)
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
    verdict = sign_in_judge(&found, bound_of(state), edge_sign_in_now(),
                            edge_session_log_is_current(),
                            edge_sign_in_doubted());
    switch (verdict) {
    case SIGN_IN_ADMIT:
        return pass_by_session(state, SIGN_IN_ADMITTED_CACHED);
    case SIGN_IN_OVER:
        return refuse_stranger(state);
    default:
        state->sealed = state->machine || verdict == SIGN_IN_ASK_RULES;
        return check_session(state);
    }
}


/* ---- the edge's own paths ---- */

/* What the query says; nothing where it cannot be read. */
static void
read_query(ngx_http_request_t *r, params_t *params)
{
    char  *memory = ngx_pnalloc(r->pool, r->args.len + 1);

    params->count = 0;
    if (memory == NULL
        || params_parse(params, (char *) r->args.data, r->args.len, memory))
    {
        params->count = 0;
    }
}


static intptr_t
begin_asked(edge_sign_in_state_t *state)
{
    params_t             params;
    ngx_str_t            target = ngx_string("/");
    const param_t       *to;
    ngx_http_request_t  *r = state->r;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return deny_request(state, ERR_EDGE_SIGN_IN_NEEDED);
    }
    read_query(r, &params);
    to = params_one(&params, "to");
    if (to) {
        target = (ngx_str_t) { to->value_len, (u_char *) to->value };
    }
    target = encoded_target(r, &target);
    return begin_sign_in(state, &target, params_one(&params, "other") != NULL);
}


/* Identity takes a code once, and from the browser alone that has the nonce; of saml there are some
 * that no browser asked for. */
static intptr_t
redeem_code(edge_sign_in_state_t *state)
{
    pack_t               pk;
    u_char              *start;
    params_t             params;
    ngx_str_t            agent = ngx_null_string;
    edge_ctx_t          *ctx = state->ctx;
    const param_t       *code;
    ngx_http_request_t  *r = state->r;

    edge_sign_in_conceal(r, ctx);
    read_query(r, &params);
    code = params_one(&params, "code");
    if (!(r->method & NGX_HTTP_GET) || code == NULL || code->value_len > 128
        || (state->nonce.len == 0 && state->me != MODULE_SAML))
    {
        return deny_request(state, ERR_EDGE_SIGN_IN_FAILED);
    }
    if (r->headers_in.user_agent) {
        agent = r->headers_in.user_agent->value;
    }
    if (edge_sign_in_body(r->pool, &pk, &start,
                          state->config->sealed_len + code->value_len
                          + 2 * TOKEN_LEN + ctx->authority.len
                          + ctx->client_ip.len + AGENT_MAX,
                          6 + (state->token.len ? 1 : 0)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put(&pk, "sealed", state->config->sealed, state->config->sealed_len);
    edge_sign_in_put(&pk, "code", code->value, code->value_len);
    edge_sign_in_put(&pk, "nonce", state->nonce.data, state->nonce.len);
    edge_sign_in_put(&pk, "host", ctx->authority.data, ctx->authority.len);
    edge_sign_in_put(&pk, "ip", ctx->client_ip.data, ctx->client_ip.len);
    edge_sign_in_put_clean(&pk, "user_agent", &agent, AGENT_MAX);
    if (state->token.len) {
        edge_sign_in_put(&pk, "old", state->token.data, state->token.len);
    }
    return ask_identity(state, SIGN_IN_STEP_REDEEM, "sign_in.redeem", start, &pk, REDEEM_MS);
}


/* To where the person wanted to go first, on the host and port that the browser used. */
static intptr_t
finish_sign_in(edge_sign_in_state_t *state)
{
    ngx_str_t            name = { state->config->session_cookie_len,
                                  (u_char *) state->config->session_cookie };
    ngx_http_request_t  *r = state->r;

    if (state->outcome != 0 || state->value.len != TOKEN_LEN) {
        return deny_unanswered(state);
    }
    if (!sign_in_is_target((char *) state->target.data, state->target.len)) {
        ngx_str_set(&state->target, "/");
    }
    state->location.data = ngx_pnalloc(r->pool, sizeof("https://") + state->target.len
                                                + state->ctx->authority.len);
    if (state->location.data == NULL
        || edge_sign_in_set_cookie(r, &name, &state->value, "; SameSite=Lax") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state->location.len = ngx_sprintf(state->location.data, "https://%V%V",
                                      &state->ctx->authority, &state->target)
                          - state->location.data;
    edge_module_count(state->me, SIGN_IN_SIGNED_IN);
    r->content_handler = send_away;
    return NGX_OK;
}


/* Content handler. */
static ngx_int_t
send_signed_out(ngx_http_request_t *r)
{
    ngx_str_t  html = ngx_string(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"
        "<meta name=\"viewport\" content=\"width=device-width\">"
        "<title>Signed out</title><style>body{font:16px/1.5 sans-serif;margin:15vh "
        "auto;max-width:34em;padding:0 1em}</style>"
        "<h1>You are signed out.</h1><p><a href=\"authn\">Sign in again</a></p></html>\n");

    return edge_sign_in_page(r, edge_ctx(r), &html);
}


static intptr_t
finish_sign_out(edge_sign_in_state_t *state)
{
    ngx_str_t  name = { state->config->session_cookie_len,
                        (u_char *) state->config->session_cookie };
    ngx_str_t  none = ngx_null_string;

    if (edge_sign_in_set_cookie(state->r, &name, &none, "; SameSite=Lax") != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (state->form) {
        state->r->content_handler = send_form;
        return NGX_OK;
    }
    if (state->location.len) {
        edge_sign_in_conceal(state->r, state->ctx);   /* where it is sent says who it is */
        state->r->content_handler = send_away;
        return NGX_OK;
    }
    state->r->content_handler = send_signed_out;
    return NGX_OK;
}


/* The body of session.end, with what identity needs to know of the provider where it is asked for. */
static ngx_int_t
make_end(edge_sign_in_state_t *state, pack_t *pk, u_char **start, size_t sealed)
{
    const char  *id = state->ctx->route->id;

    if (edge_sign_in_body(state->r->pool, pk, start, 256 + sealed, 2 + (sealed != 0))
        != NGX_OK)
    {
        return NGX_ERROR;
    }
    edge_sign_in_put(pk, "hash", state->hex, 2 * SESSION_HASH_BYTES);
    edge_sign_in_put(pk, "route", id, ngx_strlen(id));
    if (sealed) {
        edge_sign_in_put(pk, "sealed", state->config->sealed, sealed);
    }
    return NGX_OK;
}


/* The provider may have to be asked where it signs people out. NGX_DECLINED: not now; the session
 * ends all the same. */
static ngx_int_t
ask_with_provider(edge_sign_in_state_t *state)
{
    pack_t       pk;
    u_char      *start;
    uint32_t     client;
    edge_ctx_t  *ctx = state->ctx;
    ngx_str_t    account = { ctx->route->account_id_len, (u_char *) ctx->route->account_id };

    if ((state->me != MODULE_OIDC && state->me != MODULE_SAML) || !may_leave(state->r, ctx)
        || !edge_ask_has_room(&account, 1))
    {
        return NGX_DECLINED;
    }
    if (make_end(state, &pk, &start, state->config->sealed_len) != NGX_OK || pk.full) {
        return NGX_ERROR;
    }
    client = edge_share_client(ctx->client, edge_share_account(&account));
    state->asker.answered = on_own_answer;
    return edge_ask_slow(&state->asker, "session.end", &account, client, start, pk.at - start,
                         END_MS) == NGX_OK ? NGX_OK : NGX_DECLINED;
}


static intptr_t
sign_out(edge_sign_in_state_t *state)
{
    pack_t   pk;
    u_char  *start;

    if (!(state->r->method & (NGX_HTTP_GET|NGX_HTTP_POST))) {
        return deny_request(state, ERR_EDGE_SIGN_IN_PATH);
    }
    if (state->token.len == 0) {
        return finish_sign_out(state);
    }
    switch (ask_with_provider(state)) {
    case NGX_OK:
        return wait_for_answer(state, SIGN_IN_STEP_END, END_MS);
    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (make_end(state, &pk, &start, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return ask_identity(state, SIGN_IN_STEP_END, "session.end", start, &pk, END_MS);
}


static intptr_t
after_end(edge_sign_in_state_t *state)
{
    session_t  known;

    if (state->outcome != 0 && state->outcome != ERR_SESSION_GONE) {
        return deny_unanswered(state);
    }
    if (state->outcome == 0
        && sessions_find(edge_sign_in_sessions(), state->hash, &known)
        && ngx_memcmp(known.bound, bound_of(state), SESSION_BOUND_BYTES) == 0)
    {
        sessions_end(edge_sign_in_sessions(), state->hash);   /* the log may be late */
        edge_sign_in_live_end(state->hash, bound_of(state), 1);
    }
    edge_module_count(state->me, SIGN_IN_SIGNED_OUT);
    return finish_sign_out(state);
}


static sign_in_path_t
path_of(const edge_sign_in_state_t *state)
{
    const route_t  *route = state->ctx->route;
    const char     *prefix = route->match + route->host_len;

    return sign_in_path((char *) state->ctx->path.data, state->ctx->path.len,
                        prefix, ngx_strlen(prefix));
}


/* ---- hooks ---- */

static intptr_t
run_first(edge_sign_in_state_t *state)
{
    ngx_http_request_t    *r = state->r;
    const sign_in_path_t   path = path_of(state);

    if (path == SIGN_IN_UPSTREAM && r->method == NGX_HTTP_OPTIONS
        && state->config->options_passthrough)
    {
        return pass_without_session(state);
    }
    if (edge_sign_in_read(r, state) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (path) {
    case SIGN_IN_BEGIN:
        return begin_asked(state);
    case SIGN_IN_DONE:
        return redeem_code(state);
    case SIGN_IN_LOGOUT:
        return sign_out(state);
    case SIGN_IN_NOWHERE:
        return deny_request(state, ERR_EDGE_SIGN_IN_PATH);
    default:
        return edge_sign_in_machine(state) == SIGN_IN_NO_TOKEN ? refuse_machine(state)
                                                               : admit_request(state);
    }
}


/* A route that matches one path only has nowhere for what a sign-in comes back to. */
static ngx_uint_t
has_own_paths(const route_t *route)
{
    uint32_t  on = route->enabled & SIGN_IN_MODULES;

    return route->match && !route->exact && (on & (on - 1)) == 0;
}


intptr_t
edge_sign_in_run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    module_id_t            me = module_of(ctx->route);
    edge_sign_in_state_t  *state = edge_module_state(r, ctx, me);

    if (state == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    switch (state->step) {
    case SIGN_IN_STEP_CHECK:
        return after_check(state);
    case SIGN_IN_STEP_VOUCH:
        return after_vouch(state);
    case SIGN_IN_STEP_BEGIN:
        return redirect_to_sign_in(state);
    case SIGN_IN_STEP_REDEEM:
        return finish_sign_in(state);
    case SIGN_IN_STEP_END:
        return after_end(state);
    case SIGN_IN_STEP_NEW:
        break;
    }
    state->r = r;
    state->ctx = ctx;
    state->config = (sign_in_t *) config;
    state->me = me;
    if (!has_own_paths(ctx->route)) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: route %s cannot have a sign-in: it matches one "
                      "path only", ctx->route->id);
        return deny_request(state, ERR_EDGE_MODULE);
    }
    return run_first(state);
}


/* By other rules nobody is admitted any more. What passed without a session may finish, but no
 * upgraded stream, which could stay for ever. */
uintptr_t
edge_sign_in_judge(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    const route_t               *began = ctx->route;
    const sign_in_t             *now = config, *then;
    const edge_sign_in_state_t  *state;

    if ((began->enabled & SIGN_IN_MODULES) == 0) {
        return r->upstream && !r->upstream->upgrade ? 0 : ERR_EDGE_CHANGED;
    }
    state = edge_module_state_if_any(ctx, module_of(began));
    then = began->configs[module_of(began)];
    if (ngx_memcmp(now->digest, then->digest, SIGN_IN_DIGEST_LEN) != 0) {
        return state && state->passed && r->upstream && !r->upstream->upgrade
               ? 0 : ERR_EDGE_CHANGED;
    }
    return state && state->ended ? ERR_EDGE_SIGN_IN_NEEDED : 0;
}


void
edge_sign_in_clean(void *data)
{
    edge_sign_in_state_t  *state = data;

    edge_sign_in_check_leave(state);
    edge_sign_in_live_remove(state);
    if (state->asking) {
        state->asking = 0;
        edge_ask_leave(&state->asker);
    }
}


void
edge_sign_in_abort(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_sign_in_state_t  *state;

    (void) r;
    state = edge_module_state_if_any(ctx, module_of(ctx->route));
    if (state) {
        edge_sign_in_clean(state);
    }
}


static void
put_text(pack_t *pk, unsigned field, const char *text, size_t len)
{
    if (len) {
        EVENT_FIELD(field);
        pack_str(pk, text, len);
    }
}


/* What it denied is said for it, but for who was sent away. */
void
edge_sign_in_describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx,
    module_id_t me)
{
    size_t                 len;
    const char            *text;
    edge_sign_in_state_t  *state = edge_module_state_if_any(ctx, me);

    (void) r;
    if (state == NULL || state->config == NULL) {
        return;
    }
    put_text(pk, EVENT_OAUTH_APP_CLIENT_ID, state->config->client_id,
             ngx_min(ngx_strlen(state->config->client_id), 1024));
    if (state->admitted || state->passed) {
        EVENT_WORD(EVENT_OAUTH_DECISION, "allow");
    } else if (state->refused && ctx->blocked_by != (int) me) {
        EVENT_WORD(EVENT_OAUTH_DECISION, "block");
    }
    if (state->admitted) {
        text = session_text(state->session, SESSION_USER, &len);
        put_text(pk, EVENT_OAUTH_USER_ID, text, len);
        text = session_text(state->session, SESSION_NAME, &len);
        put_text(pk, EVENT_OAUTH_USER_NAME, text, len);
    }
}


void
edge_sign_in_start(ngx_cycle_t *cycle)
{
    edge_sign_in_check_start();
    edge_sign_in_jwt_start();
    edge_sign_in_live_start(cycle);
}
