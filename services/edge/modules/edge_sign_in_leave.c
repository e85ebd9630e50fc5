/* <path of the route>/auth/logout: whoever is told that he is signed out is. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/modules/sign_in_rules.h"
#include "common/base/err.h"

enum { END_MS = 10000 };


/* Content handler. */
static ngx_int_t
send_form(ngx_http_request_t *r)
{
    edge_ctx_t            *ctx = edge_ctx(r);
    edge_sign_in_state_t  *state;

    state = edge_module_state_if_any(ctx, edge_sign_in_module_of(ctx->route));
    return edge_sign_in_form(r, ctx, state->form);
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
        state->r->content_handler = edge_sign_in_redirects;
        return NGX_OK;
    }
    state->r->content_handler = send_signed_out;
    return NGX_OK;
}


/* The body of session.end, with what identity needs to know of the provider where it is asked for;
 * else with what says of which edge the route is. */
static ngx_int_t
make_end(edge_sign_in_state_t *state, pack_t *pk, u_char **start, ngx_uint_t with_provider)
{
    const char       *id = state->ctx->route->id;
    const sign_in_t  *config = state->config;
    const size_t      size = with_provider ? 0 : config->place_len;

    if (edge_sign_in_body(state->r->pool, pk, start, 256 + size,
                          2 + (with_provider || size ? 1 : 0)) != NGX_OK)
    {
        return NGX_ERROR;
    }
    edge_sign_in_put_hash(pk, state);
    edge_sign_in_put(pk, "route", id, ngx_strlen(id));
    if (with_provider) {
        edge_sign_in_put_head(pk, "sealed", config->sealed_len);
    } else if (size) {
        edge_sign_in_put(pk, "place", config->place, size);
    }
    return pk->full ? NGX_ERROR : NGX_OK;
}


/* The provider may have to be asked where it signs people out. NGX_DECLINED: not now; the session
 * ends all the same. */
static ngx_int_t
ask_with_provider(edge_sign_in_state_t *state)
{
    pack_t       pk;
    u_char      *start;
    ask_body_t   body;
    uint32_t     client = edge_sign_in_client(state);
    edge_ctx_t  *ctx = state->ctx;
    ngx_str_t    account = { ctx->route->account_id_len, (u_char *) ctx->route->account_id };

    if ((state->me != MODULE_OIDC && state->me != MODULE_SAML)
        || !edge_sign_in_may_leave(state->r, ctx)
        || !edge_ask_has_room(&account, client, ASK_SLOW))
    {
        return NGX_DECLINED;
    }
    if (make_end(state, &pk, &start, 1) != NGX_OK) {
        return NGX_ERROR;
    }
    state->asker.answered = edge_sign_in_on_answer;
    edge_ask_for(&state->asker, ctx->request_id);
    body = (ask_body_t) { start, pk.at - start, state->config->shared };
    return edge_ask_kind(&state->asker, ASK_SLOW, "session.end", &account, client, &body, END_MS)
           == NGX_OK ? NGX_OK : NGX_DECLINED;
}


static intptr_t
end_without_provider(edge_sign_in_state_t *state)
{
    pack_t   pk;
    u_char  *start;

    if (make_end(state, &pk, &start, 0) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_sign_in_ask(state, SIGN_IN_STEP_END, "session.end", start, &pk, NULL, END_MS);
}


/* Of several cookies of the name each that can be one of a session ends, one after the other. Who
 * of them it is at the provider nobody can say, so it is not told. */
static intptr_t
end_next(edge_sign_in_state_t *state)
{
    state->token = state->others[--state->others_n];
    if (edge_sign_in_hash(state) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return end_without_provider(state);
}


/* Nobody asked for it, or nobody can say whose session it would be: nothing ends, no cookie is
 * taken away, and the page says so. */
static intptr_t
refuse_sign_out(edge_sign_in_state_t *state)
{
    ngx_str_t  host = edge_sign_in_authority(state);

    edge_sign_in_offer(state->r, state->ctx, state->ctx->route, &host, "logout");
    return edge_sign_in_deny(state, ERR_EDGE_SIGN_OUT_UNASKED);
}


intptr_t
edge_sign_in_sign_out(edge_sign_in_state_t *state)
{
    if (!(state->r->method & (NGX_HTTP_GET|NGX_HTTP_POST))) {
        return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_PATH);
    }
    if (!edge_sign_in_may_end(state) || state->too_many) {
        return refuse_sign_out(state);
    }
    if (state->others_n) {
        return end_next(state);
    }
    if (state->token.len == 0) {
        return edge_sign_in_is_blind(state) ? refuse_sign_out(state) : finish_sign_out(state);
    }
    switch (ask_with_provider(state)) {
    case NGX_OK:
        return edge_sign_in_wait(state, SIGN_IN_STEP_END, END_MS);
    case NGX_ERROR:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return end_without_provider(state);
}


/* The session that ended may be one of another route of the edge. The log tells this worker, too,
 * perhaps later. Of what is no session the log says nothing, and neither does this: with the end of
 * one others are asked for anew, and whoever makes up cookies is not to put them in doubt. One that
 * had ended before is in the log, for which the answer has waited. */
static void
forget_ended(edge_sign_in_state_t *state)
{
    session_t              known;
    const sign_in_bound_t  bound = edge_sign_in_bind(state, state->config);

    if (state->over) {
        if (!state->gone || sessions_find(edge_sign_in_sessions(), state->hash, &known)) {
            sessions_end(edge_sign_in_sessions(), state->hash);
        }
        edge_sign_in_jwt_drop(state->hash);
        edge_sign_in_live_end(state->hash, NULL, 1);
    } else if (sessions_find(edge_sign_in_sessions(), state->hash, &known)
               && ngx_memcmp(known.bound, bound.bytes, SESSION_BOUND_BYTES) == 0)
    {
        sessions_end(edge_sign_in_sessions(), state->hash);
        edge_sign_in_live_end(state->hash, bound.bytes, 1);
    }
}


intptr_t
edge_sign_in_after_end(edge_sign_in_state_t *state)
{
    if (state->outcome != 0 && state->outcome != ERR_SESSION_GONE) {
        return edge_sign_in_deny_unanswered(state);
    }
    if (state->outcome == 0) {
        forget_ended(state);
    }
    edge_module_count(state->me, SIGN_IN_SIGNED_OUT);
    return state->others_n ? end_next(state) : finish_sign_out(state);
}
