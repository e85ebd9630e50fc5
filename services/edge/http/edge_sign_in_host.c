/* The sign-in host carries messages between browsers and identity: /login, to which a route sends
 * a browser with a ticket, and /oauth2/callback, to which a provider sends it back. ticket and
 * state begin with the id of a route, whose sealed rules go along. What a browser has begun is in
 * one cookie, sealed by identity, too: the edge keeps nothing. */
#include "services/edge/http/edge_sign_in_host.h"
#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_posted.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_form.h"
#include "services/edge/http/edge_sign_in_keys.h"
#include "services/edge/http/edge_sign_in_saml.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/http/edge_sign_out.h"
#include "services/edge/http/params.h"
#include "services/edge/modules/module.h"
#include "services/edge/table/sign_in.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/err.h"

enum {
    LOGIN_MS = 15000,      /* identity may have to ask the provider where it is */
    CALLBACK_MS = 30000,   /* and who somebody is */
    ROUTE_ID_MAX = 64,
    AGENT_MAX = 512,
    PLACE_LEN = 24   /* hexadecimal digits of an issuer's sum */
};

#define CALLBACK      "/oauth2/callback"
#define CALLBACK_LEN  (sizeof(CALLBACK) - 1)

#define SIGN_IN_BITS  (1u << MODULE_OAUTH | 1u << MODULE_OIDC | 1u << MODULE_SAML)

static visits_t   visits;   /* of this worker */


ngx_int_t
edge_visit_fail(ngx_http_request_t *r, ngx_uint_t code)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    ctx->error = code;
    return edge_error_handler(r);
}


static void
leave(void *data)
{
    visit_t  *visit = data;

    if (visit->asking) {
        edge_ask_leave(&visit->asker);
    }
    visit->asking = 0;
    visits_leave(&visits, &visit->place);
    route_release(visit->route);
    visit->route = NULL;
}


visit_t *
edge_visit_new(ngx_http_request_t *r)
{
    visit_t             *visit;
    ngx_pool_cleanup_t  *cln = ngx_pool_cleanup_add(r->pool, sizeof(visit_t));

    if (cln == NULL) {
        return NULL;
    }
    visit = cln->data;
    ngx_memzero(visit, sizeof(*visit));
    visit->request = r;
    if (r->uri.len == CALLBACK_LEN + 1 + PLACE_LEN) {
        visit->at.data = r->uri.data + CALLBACK_LEN + 1;
        visit->at.len = PLACE_LEN;
    }
    cln->handler = leave;
    return visit;
}


const sign_in_t *
edge_visit_config(const route_t *route)
{
    return route->configs[__builtin_ctz(route->enabled & SIGN_IN_BITS)];
}


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


/* NULL: there is none, or it cannot be used. */
static route_t *
route_of(const char *id, size_t len)
{
    route_t  *route;

    if (len == 0 || len > ROUTE_ID_MAX) {
        return NULL;
    }
    route = strmap_get(edge_worker_table()->routes, id, len);
    return route == NULL || route->refused || route->beyond || route->match == NULL ? NULL : route;
}


static void
keep_route(visit_t *visit, route_t *route)
{
    route->refs++;
    visit->route = route;
}


ngx_int_t
edge_visit_route(visit_t *visit, const char *id, size_t len)
{
    route_t  *route = route_of(id, len);

    if (route == NULL || (route->enabled & SIGN_IN_BITS) == 0) {
        return NGX_DECLINED;
    }
    keep_route(visit, route);
    return NGX_OK;
}


ngx_int_t
edge_visit_saml(visit_t *visit, const char *id, size_t len)
{
    route_t  *route = route_of(id, len);

    if (route == NULL || route_sign_out(route, MODULE_SAML) == NULL) {
        return NGX_DECLINED;
    }
    keep_route(visit, route);
    visit->saml = 1;
    return NGX_OK;
}


ngx_str_t
edge_visit_cookie(visit_t *visit, const param_t *state)
{
    if (state) {
        visit->state.data = (u_char *) state->value;
        visit->state.len = state->value_len;
    }
    return edge_flow_cookie(visit->request, (char *) visit->state.data, visit->state.len);
}


/* ---- what identity answers ---- */

/* A route's paths begin with its own: /auth/done of one at /app is /app/auth/done. */
static ngx_str_t
place_done(ngx_pool_t *pool, const ngx_str_t *location, const route_t *route)
{
    u_char      *path, *end = location->data + location->len;
    size_t       before, len;
    ngx_str_t    out = ngx_null_string;
    const char  *prefix = route->match + route->host_len;

    len = ngx_strlen(prefix);
    if (len && prefix[len - 1] == '/') {
        len--;
    }
    path = location->len > 8 ? ngx_strlchr(location->data + 8, end, '/') : NULL;
    if (path == NULL || ngx_strncmp(location->data, "https://", 8) != 0) {
        return out;
    }
    out.data = ngx_pnalloc(pool, location->len + len);
    if (out.data == NULL) {
        return out;
    }
    before = path - location->data;
    ngx_memcpy(out.data, location->data, before);
    ngx_memcpy(out.data + before, prefix, len);
    ngx_memcpy(out.data + before + len, path, end - path);
    out.len = location->len + len;
    return out;
}


ngx_str_t
edge_visit_host(ngx_pool_t *pool, const route_t *route)
{
    size_t         i;
    ngx_str_t      out = ngx_null_string;
    const char    *name = NULL;
    const edge_t  *edge;
    ngx_uint_t     port = edge_conf()->https_port;

    edge = strmap_get(edge_worker_table()->edges, route->edge_id, ngx_strlen(route->edge_id));
    for (i = 0; edge && name == NULL && i < edge->host_count; i++) {
        name = edge->hosts[i].name[0] != '*' ? edge->hosts[i].name : NULL;
    }
    if (route->host_len && route->match[0] != '*') {
        name = route->match;
    }
    out.data = name ? ngx_pnalloc(pool, ngx_strlen(name) + 8) : NULL;
    if (out.data) {
        out.len = ngx_sprintf(out.data, "%*s",
                              name == route->match ? route->host_len : ngx_strlen(name),
                              name) - out.data;
        if (port != 443) {
            out.len = ngx_sprintf(out.data + out.len, ":%ui", port) - out.data;
        }
    }
    return out;
}


ngx_int_t
edge_visit_refuse(visit_t *visit, int code)
{
    ngx_str_t            host;
    ngx_uint_t           error = edge_sign_in_error(code);
    ngx_http_request_t  *r = visit->request;

    ngx_log_error(NGX_LOG_INFO, r->connection->log, 0,
                  "postern: a sign-in of route %s ends here with %d",
                  visit->route->id, code);
    if (error != ERR_EDGE_SIGN_IN_UNAVAILABLE && (visit->route->enabled & SIGN_IN_BITS)) {
        host = edge_visit_host(r->pool, visit->route);
        edge_sign_in_offer(r, edge_ctx(r), visit->route, &host,
                           error == ERR_EDGE_SIGN_IN_DENIED ? "authn?other=1" : "authn");
    }
    return edge_visit_fail(r, error);
}


/* Of a flow that this browser has not, or has no more: it may have signed in at the route by now,
 * in another tab, and goes on there. Else the route's host has the page that says so. NGX_DECLINED:
 * nobody is sent. */
static ngx_int_t
send_on(visit_t *visit)
{
    ngx_str_t            host, location;
    ngx_http_request_t  *r = visit->request;

    if (!visit->callback || r->method != NGX_HTTP_GET
        || (visit->route->enabled & 1u << MODULE_SAML))
    {
        return NGX_DECLINED;
    }
    host = edge_visit_host(r->pool, visit->route);
    location.data = host.len ? ngx_pnalloc(r->pool, host.len + sizeof("https:///auth/done")) : NULL;
    if (location.data == NULL) {
        return NGX_DECLINED;
    }
    location.len = ngx_sprintf(location.data, "https://%V/auth/done", &host) - location.data;
    location = place_done(r->pool, &location, visit->route);
    return location.len ? edge_sign_in_redirect(r, edge_ctx(r), &location) : NGX_DECLINED;
}


/* Where the browser goes next; nowhere: by a form. */
static ngx_int_t
take_location(visit_t *visit, const ask_answer_t *answer, ngx_str_t *location, edge_form_t *form)
{
    ngx_pool_t  *pool = visit->request->pool;

    *location = edge_sign_in_text(pool, answer, "location", EDGE_SIGN_IN_LOCATION_MAX);
    if (visit->callback && location->len) {
        *location = place_done(pool, location, visit->route);
    }
    return edge_sign_in_form_take(pool, answer, form);
}


/* A flow begins, and has its cookie, or has ended. What is framed may be a stranger's: it takes no
 * other flow's place. */
static ngx_int_t
keep_flow(visit_t *visit, const ask_answer_t *answer)
{
    ngx_str_t            cookie, flow;
    ngx_http_request_t  *r = visit->request;

    if (visit->callback) {
        return edge_flow_cookie_end(r, (char *) visit->state.data, visit->state.len);
    }
    cookie = edge_sign_in_text(r->pool, answer, "cookie", EDGE_SIGN_IN_COOKIE_MAX);
    flow = edge_sign_in_text(r->pool, answer, "flow", FLOW_NAME_LEN);
    if (cookie.len == 0 || flow.len != FLOW_NAME_LEN) {
        return NGX_DECLINED;
    }
    return edge_flow_cookie_add(r, &flow, &cookie, !visit->is_document);
}


static ngx_int_t
send_answer(visit_t *visit, const ask_answer_t *answer)
{
    ngx_int_t            rc;
    ngx_str_t            location;
    edge_form_t          form;
    ngx_http_request_t  *r = visit->request;

    if (answer->code != 0) {
        rc = answer->code == ERR_SIGN_IN_STATE ? send_on(visit) : NGX_DECLINED;
        return rc == NGX_DECLINED ? edge_visit_refuse(visit, answer->code) : rc;
    }
    rc = take_location(visit, answer, &location, &form);
    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (location.len == 0 && rc != NGX_OK) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    switch (keep_flow(visit, answer)) {
    case NGX_OK:
        break;
    case NGX_DECLINED:
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    default:
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return rc == NGX_OK ? edge_sign_in_form(r, edge_ctx(r), &form)
                        : edge_sign_in_redirect(r, edge_ctx(r), &location);
}


static void
on_answer(asker_t *asker, const ask_answer_t *answer)
{
    visit_t             *visit = (visit_t *) ((char *) asker - offsetof(visit_t, asker));
    ngx_connection_t    *c = visit->request->connection;
    ngx_http_request_t  *r = visit->request;

    visit->asking = 0;
    visits_leave(&visits, &visit->place);
    ngx_http_set_log_request(c->log, r);
    ngx_http_finalize_request(r, visit->finish ? visit->finish(visit, answer)
                                               : send_answer(visit, answer));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


/* ---- questions ---- */

/* At most so many of an account (visits.h). NGX_DECLINED: nothing was asked. */
static ngx_int_t
ask_in_place(visit_t *visit, const char *verb, const ask_body_t *body, ngx_msec_t ms)
{
    ngx_int_t           rc;
    const route_t      *route = visit->route;
    ngx_str_t           account = { route->account_id_len, (u_char *) route->account_id };
    const visit_who_t   who = {
        route->account_id, route->account_id_len,
        edge_share_asker(visit->request, edge_ctx(visit->request)->client, route->account_id,
                         route->account_id_len),
        visit->saml || (route->enabled & 1u << MODULE_SAML)
    };

    visits.client_percent = edge_conf()->client_portion;
    if (!visits_enter(&visits, &visit->place, &who)) {
        return NGX_DECLINED;
    }
    rc = edge_ask_kind(&visit->asker, visit->place.slow ? ASK_SLOW : 0, verb, &account, who.client,
                       body, ms);
    if (rc != NGX_OK) {
        visits_leave(&visits, &visit->place);
        return NGX_DECLINED;
    }
    return NGX_OK;
}


ngx_int_t
edge_visit_ask(visit_t *visit, const char *verb, const u_char *start, pack_t *pk,
    shared_text_t *sealed, ngx_msec_t ms)
{
    ask_body_t           body;
    ngx_http_request_t  *r = visit->request;

    edge_sign_in_put_head(pk, "sealed", sealed->len);
    body = (ask_body_t) { start, pk->at - start, sealed };
    visit->asker.answered = on_answer;
    edge_ask_for(&visit->asker, edge_ctx(r)->request_id);
    if (pk->full || ask_in_place(visit, verb, &body, ms) != NGX_OK) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    visit->asking = 1;
    r->main->count++;
    r->read_event_handler = ngx_http_test_reading;
    r->write_event_handler = ngx_http_request_empty_handler;
    return NGX_DONE;
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


static ngx_uint_t
is_same(const param_t *one, const param_t *other)
{
    return one->name_len == other->name_len
           && ngx_memcmp(one->name, other->name, one->name_len) == 0;
}


void
edge_visit_put_params(pack_t *pk, const params_t *params)
{
    size_t  i, k, names = 0, first[PARAMS_MAX], values[PARAMS_MAX];

    for (i = 0; i < params->count; i++) {
        for (k = 0; !is_same(&params->each[k], &params->each[i]); k++) { /* void */ }
        if (k == i) {
            first[names++] = i;
            values[i] = 0;
        }
        values[k]++;
    }
    pack_str(pk, "params", 6);
    pack_map(pk, names);
    for (i = 0; i < names; i++) {
        pack_str(pk, params->each[first[i]].name, params->each[first[i]].name_len);
        pack_array(pk, values[first[i]]);
        for (k = first[i]; k < params->count; k++) {
            if (is_same(&params->each[first[i]], &params->each[k])) {
                edge_sign_in_put_value(pk, params->each[k].value,
                                       params->each[k].value_len);
            }
        }
    }
}


static ngx_int_t
ask_callback(visit_t *visit)
{
    pack_t               pk;
    u_char              *start;
    ngx_str_t            agent = ngx_null_string;
    ngx_str_t            cookie;
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
                          5 + (cookie.len ? 1 : 0) + (visit->at.len ? 1 : 0)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put(&pk, "state", state->value, state->value_len);
    edge_visit_put_params(&pk, &visit->params);
    if (visit->at.len) {
        edge_sign_in_put(&pk, "at", visit->at.data, visit->at.len);
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
    rc = edge_sign_out_handler(r);
    return rc == NGX_DECLINED ? edge_visit_fail(r, ERR_EDGE_SIGN_IN_PATH) : rc;
}
