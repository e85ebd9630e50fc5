/* <path of the route>/auth/ is the edge's own: authn begins a sign-in, done takes the code that the
 * sign-in host (http/edge_sign_in_host.c) sends the browser back with, logout ends the session. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/params.h"
#include "services/edge/modules/sign_in_rules.h"
#include "common/base/err.h"

enum {
    BEGIN_MS = 5000,
    REDEEM_MS = 15000,
    END_MS = 10000,
    TARGET_MAX = 2048,
    AGENT_MAX = 512,
    TOKEN_LEN = 43
};


/* ---- beginning ---- */

/* Path and query as text of a URL: bytes that it may not have are percent-encoded. "/" where that
 * is too long. */
ngx_str_t
edge_sign_in_target(ngx_http_request_t *r, const ngx_str_t *target)
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
intptr_t
edge_sign_in_begin(edge_sign_in_state_t *state, const ngx_str_t *target,
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
    return edge_sign_in_ask(state, SIGN_IN_STEP_BEGIN, "sign_in.begin", start, &pk, BEGIN_MS);
}


/* Content handler. */
static ngx_int_t
send_away(ngx_http_request_t *r)
{
    edge_ctx_t            *ctx = edge_ctx(r);
    edge_sign_in_state_t  *state;

    state = edge_module_state_if_any(ctx, edge_sign_in_module_of(ctx->route));
    return edge_sign_in_redirect(r, ctx, &state->location);
}


/* Content handler. */
static ngx_int_t
send_form(ngx_http_request_t *r)
{
    edge_ctx_t            *ctx = edge_ctx(r);
    edge_sign_in_state_t  *state;

    state = edge_module_state_if_any(ctx, edge_sign_in_module_of(ctx->route));
    return edge_sign_in_form(r, ctx, state->form);
}


intptr_t
edge_sign_in_send_away(edge_sign_in_state_t *state)
{
    ngx_str_t  name = { state->config->nonce_cookie_len,
                        (u_char *) state->config->nonce_cookie };

    if (state->outcome != 0 || state->location.len == 0
        || state->value.len != TOKEN_LEN)
    {
        return edge_sign_in_deny_unanswered(state);
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


intptr_t
edge_sign_in_begin_asked(edge_sign_in_state_t *state)
{
    params_t             params;
    ngx_str_t            target = ngx_string("/");
    const param_t       *to;
    ngx_http_request_t  *r = state->r;

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_NEEDED);
    }
    read_query(r, &params);
    to = params_one(&params, "to");
    if (to) {
        target = (ngx_str_t) { to->value_len, (u_char *) to->value };
    }
    target = edge_sign_in_target(r, &target);
    return edge_sign_in_begin(state, &target, params_one(&params, "other") != NULL);
}


/* Identity takes a code once, and from the browser alone that has the nonce; of saml there are some
 * that no browser asked for. */
intptr_t
edge_sign_in_redeem(edge_sign_in_state_t *state)
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
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_FAILED);
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
    return edge_sign_in_ask(state, SIGN_IN_STEP_REDEEM, "sign_in.redeem", start, &pk, REDEEM_MS);
}


/* To where the person wanted to go first, on the host and port that the browser used. */
intptr_t
edge_sign_in_finish(edge_sign_in_state_t *state)
{
    ngx_str_t            name = { state->config->session_cookie_len,
                                  (u_char *) state->config->session_cookie };
    ngx_http_request_t  *r = state->r;

    if (state->outcome != 0 || state->value.len != TOKEN_LEN) {
        return edge_sign_in_deny_unanswered(state);
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
    uint32_t     client = edge_sign_in_client(state);
    edge_ctx_t  *ctx = state->ctx;
    ngx_str_t    account = { ctx->route->account_id_len, (u_char *) ctx->route->account_id };

    if ((state->me != MODULE_OIDC && state->me != MODULE_SAML)
        || !edge_sign_in_may_leave(state->r, ctx)
        || !edge_ask_has_room(&account, client, ASK_SLOW))
    {
        return NGX_DECLINED;
    }
    if (make_end(state, &pk, &start, state->config->sealed_len) != NGX_OK || pk.full) {
        return NGX_ERROR;
    }
    state->asker.answered = edge_sign_in_on_answer;
    return edge_ask_slow(&state->asker, "session.end", &account, client, start, pk.at - start,
                         END_MS) == NGX_OK ? NGX_OK : NGX_DECLINED;
}


intptr_t
edge_sign_in_sign_out(edge_sign_in_state_t *state)
{
    pack_t   pk;
    u_char  *start;

    if (!(state->r->method & (NGX_HTTP_GET|NGX_HTTP_POST))) {
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_PATH);
    }
    if (state->token.len == 0) {
        return finish_sign_out(state);
    }
    switch (ask_with_provider(state)) {
    case NGX_OK:
        return edge_sign_in_wait(state, SIGN_IN_STEP_END, END_MS);
    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (make_end(state, &pk, &start, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_sign_in_ask(state, SIGN_IN_STEP_END, "session.end", start, &pk, END_MS);
}


intptr_t
edge_sign_in_after_end(edge_sign_in_state_t *state)
{
    session_t  known;

    if (state->outcome != 0 && state->outcome != ERR_SESSION_GONE) {
        return edge_sign_in_deny_unanswered(state);
    }
    if (state->outcome == 0
        && sessions_find(edge_sign_in_sessions(), state->hash, &known)
        && ngx_memcmp(known.bound, edge_sign_in_bound_of(state), SESSION_BOUND_BYTES) == 0)
    {
        sessions_end(edge_sign_in_sessions(), state->hash);   /* the log may be late */
        edge_sign_in_live_end(state->hash, edge_sign_in_bound_of(state), 1);
    }
    edge_module_count(state->me, SIGN_IN_SIGNED_OUT);
    return finish_sign_out(state);
}


sign_in_path_t
edge_sign_in_path_of(const edge_sign_in_state_t *state)
{
    const route_t  *route = state->ctx->route;
    const char     *prefix = route->match + route->host_len;

    return sign_in_path((char *) state->ctx->path.data, state->ctx->path.len,
                        prefix, ngx_strlen(prefix));
}
