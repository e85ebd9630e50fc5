/* The sign-in host carries messages between browsers and identity: /login, to which a route sends
 * a browser with a ticket, and /oauth2/callback, to which a provider sends it back. ticket and
 * state begin with the id of a route, whose sealed rules go along. What a browser has begun is in
 * one cookie, sealed by identity, too: the edge keeps nothing. */
#include "services/edge/http/edge_sign_in_host.h"
#include "services/edge/http/edge_posted.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_keys.h"
#include "services/edge/http/edge_sign_in_saml.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/http/edge_sign_out.h"
#include "services/edge/http/edge_signed_out.h"
#include "services/edge/http/params.h"
#include "services/edge/table/sign_in.h"
#include "common/base/err.h"

enum {
    LOGIN_MS = 15000,      /* identity may have to ask the provider where it is */
    CALLBACK_MS = 30000,   /* and who somebody is */
    AGENT_MAX = 512,
    PLACE_LEN = 24   /* hexadecimal digits of an issuer's sum */
};

#define CALLBACK      "/oauth2/callback"
#define CALLBACK_LEN  (sizeof(CALLBACK) - 1)


/* ---- questions ---- */

/* The route that "<route id>.<rest>" is of, which the visit keeps. NGX_DECLINED: there is none that
 * anybody signs in to. */
static ngx_int_t
find_route(visit_t *visit, const param_t *token)
{
    size_t   len;
    u_char  *dot = token == NULL ? NULL
                    : ngx_strlchr((u_char *) token->value,
                                  (u_char *) token->value + token->value_len, '.');

    if (dot == NULL) {
        return NGX_DECLINED;
    }
    len = dot - (u_char *) token->value;
    return edge_visit_route(visit, token->value, len);
}


static ngx_uint_t
is_text(const ngx_str_t *text, const char *word)
{
    return text->len == ngx_strlen(word)
           && ngx_strncasecmp(text->data, (u_char *) word, text->len) == 0;
}


/* data NULL: there is none. */
static ngx_str_t
header_of(ngx_http_request_t *r, const char *name)
{
    ngx_str_t         none = ngx_null_string;
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (header[i].key.len == ngx_strlen(name)
                && ngx_memcmp(header[i].lowcase_key, name, header[i].key.len) == 0)
            {
                return header[i].value;
            }
        }
    }
    return none;
}


/* An image or a script of another site, where the browser says so, begins no sign-in. Sets
 * is_document. */
static ngx_uint_t
is_opened(visit_t *visit)
{
    const ngx_str_t  dest = header_of(visit->request, "sec-fetch-dest");

    visit->is_document = dest.data == NULL || is_text(&dest, "document");
    return visit->is_document || is_text(&dest, "iframe") || is_text(&dest, "frame");
}


static ngx_int_t
ask_login(visit_t *visit)
{
    size_t            id_len;
    pack_t            pk;
    u_char           *start;
    const param_t    *ticket = params_one(&visit->params, "t");
    const sign_in_t  *config;

    if (!is_opened(visit) || find_route(visit, ticket) != NGX_OK) {
        return edge_visit_fail(visit->request, ERR_EDGE_SIGN_IN_FAILED);
    }
    config = edge_visit_config(visit->route);
    id_len = ngx_strlen(visit->route->id) + 1;
    if (edge_sign_in_body(visit->request->pool, &pk, &start, ticket->value_len, 2) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put(&pk, "ticket", ticket->value + id_len, ticket->value_len - id_len);
    return edge_visit_ask(visit, "sign_in.login", start, &pk, config->shared, LOGIN_MS);
}


/* What stands behind /oauth2/callback/; empty: nothing. */
static ngx_str_t
at_of(const ngx_http_request_t *r)
{
    ngx_str_t  at = ngx_null_string;

    if (r->uri.len == CALLBACK_LEN + 1 + PLACE_LEN) {
        at.data = r->uri.data + CALLBACK_LEN + 1;
        at.len = PLACE_LEN;
    }
    return at;
}


static ngx_int_t
ask_callback(visit_t *visit)
{
    pack_t               pk;
    u_char              *start;
    ngx_str_t            agent = ngx_null_string;
    ngx_str_t            cookie;
    ngx_str_t            at = at_of(visit->request);
    edge_ctx_t          *ctx = edge_ctx(visit->request);
    const param_t       *state = params_one(&visit->params, "state");
    const sign_in_t     *config;
    ngx_http_request_t  *r = visit->request;

    if (find_route(visit, state) != NGX_OK) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    config = edge_visit_config(visit->route);
    cookie = edge_visit_cookie(visit, state);
    if (r->headers_in.user_agent) {
        agent = r->headers_in.user_agent->value;
    }
    if (edge_sign_in_body(r->pool, &pk, &start,
                          2 * PARAMS_BYTES + cookie.len
                          + ctx->client_ip.len + AGENT_MAX + 16 * PARAMS_MAX + PLACE_LEN,
                          5 + (cookie.len ? 1 : 0) + (at.len ? 1 : 0)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put(&pk, "state", state->value, state->value_len);
    edge_visit_put_params(&pk, &visit->params);
    if (at.len) {
        edge_sign_in_put(&pk, "at", at.data, at.len);
    }
    if (cookie.len) {
        edge_sign_in_put_clean(&pk, "cookie", &cookie, EDGE_SIGN_IN_COOKIE_MAX);
    }
    edge_sign_in_put(&pk, "ip", ctx->client_ip.data, ctx->client_ip.len);
    edge_sign_in_put_clean(&pk, "user_agent", &agent, AGENT_MAX);
    visit->callback = 1;
    return edge_visit_ask(visit, "sign_in.callback", start, &pk, config->shared, CALLBACK_MS);
}


/* ---- requests ---- */

static ngx_int_t
read_params(visit_t *visit, const ngx_str_t *text)
{
    char  *memory = ngx_pnalloc(visit->request->pool, text->len + 1);

    if (memory == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return params_parse(&visit->params, (char *) text->data, text->len, memory)
           ? NGX_DECLINED : NGX_OK;
}


static ngx_int_t
take_form(ngx_http_request_t *r, ngx_str_t *text)
{
    ngx_int_t   rc;
    visit_t    *visit = edge_visit_new(r);

    if (visit == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    rc = read_params(visit, text);
    if (rc == NGX_DECLINED) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    return rc == NGX_OK ? ask_callback(visit) : rc;
}


static const edge_posted_to_t  callback_form = { PARAMS_BYTES, take_form, edge_visit_fail };


static ngx_int_t
take_query(ngx_http_request_t *r, ngx_int_t (*go_on)(visit_t *visit))
{
    ngx_int_t   rc;
    visit_t    *visit = edge_visit_new(r);

    if (visit == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    rc = read_params(visit, &r->args);
    if (rc == NGX_DECLINED) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    return rc == NGX_OK ? go_on(visit) : rc;
}


static ngx_uint_t
is_path(const ngx_http_request_t *r, const char *path)
{
    return r->uri.len == ngx_strlen(path)
           && ngx_memcmp(r->uri.data, path, r->uri.len) == 0;
}


/* The callback of a provider that is a row of proto/oauth_providers.def, or behind a slash that of
 * an issuer, which has one of its own: a code that came to one is never asked of the other. */
static ngx_uint_t
is_callback(const ngx_http_request_t *r)
{
    size_t         i;
    const u_char  *at = r->uri.data + CALLBACK_LEN + 1;

    if (r->uri.len != CALLBACK_LEN + 1 + PLACE_LEN) {
        return is_path(r, CALLBACK);
    }
    if (ngx_memcmp(r->uri.data, CALLBACK "/", CALLBACK_LEN + 1) != 0) {
        return 0;
    }
    for (i = 0; i < PLACE_LEN; i++) {
        if (!((at[i] >= '0' && at[i] <= '9') || (at[i] >= 'a' && at[i] <= 'f'))) {
            return 0;
        }
    }
    return 1;
}


ngx_int_t
edge_sign_in_host_handler(ngx_http_request_t *r)
{
    ngx_int_t    rc;
    edge_ctx_t  *ctx = edge_ctx(r);

    edge_sign_in_conceal(r, ctx);
    if (is_path(r, "/login") && r->method == NGX_HTTP_GET) {
        return take_query(r, ask_login);
    }
    if (is_path(r, "/.well-known/jwks.json") && (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return edge_sign_in_keys(r);
    }
    if (is_callback(r)) {
        if (r->method == NGX_HTTP_GET) {
            return take_query(r, ask_callback);
        }
        if (r->method == NGX_HTTP_POST) {
            return edge_posted_read(r, &callback_form, NULL);
        }
    }
    if (edge_sign_in_saml_is(r)) {
        return edge_sign_in_saml_handler(r);
    }
    rc = edge_signed_out_handler(r);
    if (rc == NGX_DECLINED) {
        rc = edge_sign_out_handler(r);
    }
    return rc == NGX_DECLINED ? edge_visit_fail(r, ERR_EDGE_SIGN_IN_PATH) : rc;
}
