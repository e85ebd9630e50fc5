#include "services/edge/http/edge_signed_out.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/http/params.h"
#include "services/edge/modules/module.h"


/* Where to sign in again: state begins with the id of the route that was left. */
static void
offer_route(ngx_http_request_t *r, const param_t *state)
{
    u_char     *dot;
    route_t    *route = NULL;
    ngx_str_t   host;

    dot = ngx_strlchr((u_char *) state->value, (u_char *) state->value + state->value_len, '.');
    if (dot) {
        route = edge_visit_find(state->value, dot - (u_char *) state->value);
    }
    if (route && (route->enabled & (1u << MODULE_OIDC|1u << MODULE_SAML))) {
        host = edge_visit_host(r->pool, route);
        edge_sign_in_offer(r, edge_ctx(r), route, &host, "authn");
    }
}


/* What the query says; nothing where it cannot be read. */
static ngx_int_t
read_query(ngx_http_request_t *r, params_t *params)
{
    char  *memory = ngx_pnalloc(r->pool, r->args.len + 1);

    params->count = 0;
    if (memory == NULL) {
        return NGX_ERROR;
    }
    if (params_parse(params, (char *) r->args.data, r->args.len, memory)) {
        params->count = 0;
    }
    return NGX_OK;
}


#define PAGE_BEGIN                                                            \
    "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\">"                \
    "<meta name=\"viewport\" content=\"width=device-width\">"                 \
    "<title>Signed out</title><style>body{font:16px/1.5 sans-serif;margin:15vh " \
    "auto;max-width:34em;padding:0 1em}</style><h1>You are signed out.</h1>"
#define PARTLY                                                                \
    "<p>Your identity provider has not signed you out everywhere: close the browser to be sure.</p>"
#define PAGE_END  "</html>\n"

static ngx_uint_t
is_asked(const ngx_http_request_t *r)
{
    ngx_str_t  path = ngx_string("/signed-out");

    return r->uri.len == path.len && ngx_memcmp(r->uri.data, path.data, path.len) == 0
           && (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD));
}


ngx_int_t
edge_signed_out_handler(ngx_http_request_t *r)
{
    u_char         *p;
    params_t        params;
    ngx_str_t       html;
    edge_ctx_t     *ctx = edge_ctx(r);
    const param_t  *state;

    if (!is_asked(r)) {
        return NGX_DECLINED;
    }
    if (read_query(r, &params) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    state = params_one(&params, "state");
    if (state) {
        offer_route(r, state);
    }
    html.data = ngx_pnalloc(r->pool, sizeof(PAGE_BEGIN PARTLY PAGE_END) + ctx->again.len + 64);
    if (html.data == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    p = ngx_cpymem(html.data, PAGE_BEGIN, sizeof(PAGE_BEGIN) - 1);
    if (params_one(&params, "partly")) {
        p = ngx_cpymem(p, PARTLY, sizeof(PARTLY) - 1);
    }
    if (ctx->again.len) {
        p = ngx_sprintf(p, "<p><a href=\"%V\">Sign in again</a></p>", &ctx->again);
    }
    p = ngx_cpymem(p, PAGE_END, sizeof(PAGE_END) - 1);
    html.len = p - html.data;
    return edge_sign_in_page(r, ctx, &html);
}
