/* <path of the route>/auth/ is the edge's own: authn begins a sign-in, done takes the code that the
 * sign-in host (http/edge_sign_in_host.c) sends the browser back with. logout is in
 * edge_sign_in_leave.c. */
#include "services/edge/modules/edge_sign_in.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/params.h"
#include "services/edge/modules/sign_in_rules.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/err.h"

enum {
    BEGIN_MS = 5000,
    REDEEM_MS = 15000,
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


/* Host and port by which browsers reach the route: the port of a client's Host may be another
 * program's. Empty: no memory. */
ngx_str_t
edge_sign_in_authority(const edge_sign_in_state_t *state)
{
    ngx_str_t         out = state->ctx->host;
    const ngx_uint_t  port = edge_conf()->https_port;

    if (port != 443) {
        out.data = ngx_pnalloc(state->r->pool, out.len + sizeof(":65535"));
        if (out.data == NULL) {
            ngx_str_null(&out);
            return out;
        }
        out.len = ngx_sprintf(out.data, "%V:%ui", &state->ctx->host, port) - out.data;
    }
    return out;
}


/* other: the provider is to ask who it is, even if it knows. */
intptr_t
edge_sign_in_begin(edge_sign_in_state_t *state, const ngx_str_t *target,
    ngx_uint_t other)
{
    pack_t       pk;
    u_char      *start;
    ngx_str_t    host = edge_sign_in_authority(state);
    sign_in_t   *config = state->config;

    state->nonces = edge_nonces_read(state->r, config);
    if (state->nonces == NULL
        || edge_sign_in_body(state->r->pool, &pk, &start,
                             config->place_len + host.len + target->len + TOKEN_LEN,
                             3 + (state->nonces->n ? 1 : 0) + other) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (config->place_len) {   /* what says whose rules they are */
        edge_sign_in_put(&pk, "place", config->place, config->place_len);
    }
    edge_sign_in_put(&pk, "host", host.data, host.len);
    edge_sign_in_put(&pk, "target", target->data, target->len);
    if (state->nonces->n) {
        edge_sign_in_put(&pk, "nonce", state->nonces->each[0].data, TOKEN_LEN);
    }
    if (other) {
        pack_str(&pk, "force", 5);
        pack_bool(&pk, true);
    }
    return edge_sign_in_ask(state, SIGN_IN_STEP_BEGIN, "sign_in.begin", start, &pk,
                            config->place_len ? NULL : config->shared, BEGIN_MS);
}


/* Content handler. */
ngx_int_t
edge_sign_in_redirects(ngx_http_request_t *r)
{
    edge_ctx_t            *ctx = edge_ctx(r);
    edge_sign_in_state_t  *state;

    state = edge_module_state_if_any(ctx, edge_sign_in_module_of(ctx->route));
    return edge_sign_in_redirect(r, ctx, &state->location);
}


intptr_t
edge_sign_in_send_away(edge_sign_in_state_t *state)
{
    ngx_http_request_t  *r = state->r;

    if (state->outcome != 0 || state->location.len == 0
        || state->value.len != TOKEN_LEN)
    {
        return edge_sign_in_deny_unanswered(state);
    }
    if (edge_nonce_set(r, state->config, state->nonces, &state->value,
                       edge_sign_in_is_framed(r, state->ctx)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_module_count(state->me, SIGN_IN_SENT_AWAY);
    state->refused = 1;
    edge_sign_in_conceal(r, state->ctx);   /* where it is sent has the ticket */
    r->content_handler = edge_sign_in_redirects;
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

    if (!edge_sign_in_may_begin(r, state->ctx)) {
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


static void
put_list(pack_t *pk, const char *key, const ngx_str_t *each, size_t n)
{
    size_t  i;

    pack_str(pk, key, ngx_strlen(key));
    pack_array(pk, n);
    for (i = 0; i < n; i++) {
        edge_sign_in_put_value(pk, each[i].data, each[i].len);
    }
}


/* The session that the new one takes the place of, or several. */
static void
put_old(pack_t *pk, const edge_sign_in_state_t *state)
{
    if (state->token.len) {
        edge_sign_in_put(pk, "old", state->token.data, state->token.len);
    } else if (state->others_n) {
        put_list(pk, "old", state->others, state->others_n);
    }
}


/* Without a good code a browser that is signed in at the route goes on to it: another tab may have
 * been quicker, or the code was redeemed before. */
static intptr_t
go_on(edge_sign_in_state_t *state)
{
    state->back = 1;
    return state->r->method == NGX_HTTP_GET && state->token.len
           ? edge_sign_in_admit(state) : edge_sign_in_fail(state);
}


/* The tabs of a browser that go on by themselves take each other's flows where these take longer:
 * so each time that one does, the next one waits twice as long. */
enum {
    ONWARD_S = 2,
    ONWARD_DOUBLED_MAX = 3
};


/* Does the page of a sign-in that failed go on by itself? NGX_OK | NGX_DECLINED | NGX_ERROR. */
static ngx_int_t
go_round(edge_sign_in_state_t *state)
{
    ngx_str_t            host = edge_sign_in_authority(state);
    ngx_http_request_t  *r = state->r;

    if (r->method != NGX_HTTP_GET || !edge_sign_in_navigates(r, state->ctx)
        || edge_sign_in_is_framed(r, state->ctx))
    {
        return NGX_DECLINED;
    }
    edge_sign_in_go_round(r, state->ctx, state->ctx->route, &host);
    state->ctx->onward_s = ONWARD_S << ngx_min(state->nonces->retries, ONWARD_DOUBLED_MAX);
    return state->ctx->onward.len
           ? edge_nonces_count_retry(r, state->config, state->nonces) : NGX_DECLINED;
}


/* Of many tabs that sign in side by side a browser keeps some flows only: those without one wait a
 * moment for another's session. Where none comes, for one is still asked for a password, and it was
 * this one's that was given, the provider knows who it is, and a sign-in anew asks nobody. */
intptr_t
edge_sign_in_fail(edge_sign_in_state_t *state)
{
    switch (go_round(state)) {
    case NGX_OK:
        break;
    case NGX_DECLINED:
        ngx_str_null(&state->ctx->onward);
        break;
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_sign_in_deny(state, ERR_EDGE_SIGN_IN_FAILED);
}


intptr_t
edge_sign_in_go_back(edge_sign_in_state_t *state)
{
    size_t           len;
    ngx_str_t        host = edge_sign_in_authority(state);
    const route_t   *route = state->ctx->route;
    const char      *path = route->match + route->host_len;

    len = ngx_strlen(path);
    state->location.data = ngx_pnalloc(state->r->pool, sizeof("https:///") + host.len + len);
    if (state->location.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state->location.len = ngx_sprintf(state->location.data, "https://%V%s%*s", &host,
                                      len ? "" : "/", len, path) - state->location.data;
    state->r->content_handler = edge_sign_in_redirects;
    return NGX_OK;
}


/* Identity takes a code once, and from the browser alone that has the nonce; of saml there are some
 * that no browser asked for. */
intptr_t
edge_sign_in_redeem(edge_sign_in_state_t *state)
{
    pack_t               pk;
    u_char              *start;
    params_t             params;
    ngx_str_t            agent = ngx_null_string, host = edge_sign_in_authority(state);
    edge_ctx_t          *ctx = state->ctx;
    const param_t       *code;
    ngx_http_request_t  *r = state->r;

    edge_sign_in_conceal(r, ctx);
    read_query(r, &params);
    code = params_one(&params, "code");
    state->nonces = edge_nonces_read(r, state->config);
    if (state->nonces == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!(r->method & NGX_HTTP_GET) || code == NULL || code->value_len > 128
        || (state->nonces->n == 0 && state->me != MODULE_SAML))
    {
        return go_on(state);
    }
    if (r->headers_in.user_agent) {
        agent = r->headers_in.user_agent->value;
    }
    if (edge_sign_in_body(r->pool, &pk, &start,
                          code->value_len
                          + (EDGE_NONCES_MAX + SIGN_IN_COOKIES_MAX) * (TOKEN_LEN + 2) + host.len
                          + ctx->client_ip.len + AGENT_MAX,
                          6 + (state->token.len || state->others_n ? 1 : 0)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put(&pk, "code", code->value, code->value_len);
    put_list(&pk, "nonce", state->nonces->each, state->nonces->n);
    edge_sign_in_put(&pk, "host", host.data, host.len);
    edge_sign_in_put(&pk, "ip", ctx->client_ip.data, ctx->client_ip.len);
    edge_sign_in_put_clean(&pk, "user_agent", &agent, AGENT_MAX);
    put_old(&pk, state);
    return edge_sign_in_ask(state, SIGN_IN_STEP_REDEEM, "sign_in.redeem", start, &pk,
                            state->config->shared, REDEEM_MS);
}


/* To where the person wanted to go first. */
intptr_t
edge_sign_in_finish(edge_sign_in_state_t *state)
{
    ngx_str_t            name = { state->config->session_cookie_len,
                                  (u_char *) state->config->session_cookie };
    ngx_str_t            host = edge_sign_in_authority(state);
    ngx_http_request_t  *r = state->r;

    if (state->outcome == ERR_SIGN_IN_CODE) {
        return go_on(state);
    }
    if (state->outcome != 0 || state->value.len != TOKEN_LEN) {
        return edge_sign_in_deny_unanswered(state);
    }
    if (!sign_in_is_target((char *) state->target.data, state->target.len)
        || edge_sign_in_is_own(state, &state->target))
    {
        ngx_str_set(&state->target, "/");
    }
    state->location.data = ngx_pnalloc(r->pool, sizeof("https://") + state->target.len
                                                + host.len);
    if (state->location.data == NULL
        || edge_sign_in_set_cookie(r, &name, &state->value, "; SameSite=Lax") != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state->location.len = ngx_sprintf(state->location.data, "https://%V%V",
                                      &host, &state->target)
                          - state->location.data;
    edge_module_count(state->me, SIGN_IN_SIGNED_IN);
    r->content_handler = edge_sign_in_redirects;
    return NGX_OK;
}


sign_in_path_t
edge_sign_in_path_of(const edge_sign_in_state_t *state)
{
    const route_t  *route = state->ctx->route;
    const char     *prefix = route->match + route->host_len;

    return sign_in_path((char *) state->ctx->path.data, state->ctx->path.len,
                        prefix, ngx_strlen(prefix));
}
