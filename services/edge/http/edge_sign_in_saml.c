/* The edge reads nothing of a SAML message: it brings the form to identity, with the rules of the
 * route that the path names. */
#include "services/edge/http/edge_sign_in_saml.h"
#include "services/edge/http/authority.h"
#include "services/edge/http/edge_posted.h"
#include "services/edge/http/edge_sign_in_form.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/err.h"

enum {
    METADATA_MS = 15000,
    RESPONSE_MS = 30000,
    LOGOUT_MS = 30000,
    METADATA_MAX = 16384,
    AGENT_MAX = 512
};

#define SAML      "/saml/"
#define SAML_LEN  (sizeof(SAML) - 1)
#define ACS       "/acs"
#define SLO       "/slo"


ngx_uint_t
edge_sign_in_saml_is(const ngx_http_request_t *r)
{
    return r->uri.len > SAML_LEN && ngx_memcmp(r->uri.data, SAML, SAML_LEN) == 0;
}


static ngx_uint_t
is_at(const u_char *place, size_t len, const char *path)
{
    return len == ngx_strlen(path) && ngx_memcmp(place, path, len) == 0;
}


/* What stands behind the route's id, which the visit keeps. Empty: nothing; NULL: there is no such
 * route, or its module is off, and that is no place for logout. */
static const u_char *
find_place(visit_t *visit, size_t *len)
{
    const u_char  *id = visit->request->uri.data + SAML_LEN;
    const u_char  *end = visit->request->uri.data + visit->request->uri.len, *at;

    for (at = id; at < end && *at != '/'; at++) { /* void */ }
    *len = end - at;
    if (edge_visit_saml(visit, (const char *) id, at - id) != NGX_OK
        || ((visit->route->enabled & 1u << MODULE_SAML) == 0 && !is_at(at, *len, SLO)))
    {
        return NULL;
    }
    return at;
}


/* ---- metadata ---- */

/* The text of a document, which may have line ends: it becomes no header. */
static ngx_int_t
take_document(ngx_pool_t *pool, const ask_answer_t *answer, ngx_str_t *out)
{
    const msgpack_object  *value;

    value = edge_sign_in_member(answer, "metadata");
    if (value == NULL || value->type != MSGPACK_OBJECT_STR || value->via.str.size == 0
        || value->via.str.size > METADATA_MAX)
    {
        return NGX_DECLINED;
    }
    out->len = value->via.str.size;
    out->data = ngx_pnalloc(pool, out->len);
    if (out->data == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(out->data, value->via.str.ptr, out->len);
    return NGX_OK;
}


static ngx_int_t
finish_metadata(visit_t *visit, const ask_answer_t *answer)
{
    ngx_int_t            rc;
    ngx_str_t            text;
    ngx_http_request_t  *r = visit->request;

    if (answer->code != 0) {
        return edge_visit_fail(r, answer->code == ERR_NOT_FOUND
                                  ? ERR_EDGE_SIGN_IN_PATH
                                  : ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    rc = take_document(r->pool, answer, &text);
    if (rc != NGX_OK) {
        return rc == NGX_ERROR ? NGX_HTTP_INTERNAL_SERVER_ERROR
                               : edge_visit_fail(r, ERR_EDGE_SIGN_IN_UNAVAILABLE);
    }
    return edge_sign_in_document(r, edge_ctx(r), &text, "application/samlmetadata+xml", NULL);
}


static ngx_int_t
ask_metadata(visit_t *visit)
{
    pack_t            pk;
    u_char           *start;
    const sign_in_t  *config = edge_visit_config(visit->route);

    if (edge_sign_in_body(visit->request->pool, &pk, &start, 0, 1) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    visit->finish = finish_metadata;
    return edge_visit_ask(visit, "sign_in.metadata", start, &pk, config->shared, METADATA_MS);
}


/* ---- single logout ---- */

static ngx_int_t
finish_logout(visit_t *visit, const ask_answer_t *answer)
{
    ngx_int_t            rc;
    ngx_str_t            location;
    edge_form_t          form;
    ngx_http_request_t  *r = visit->request;

    if (answer->code == ERR_NOT_FOUND) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_PATH);
    }
    if (answer->code != 0) {
        return edge_visit_refuse(visit, answer->code);
    }
    rc = edge_sign_in_form_take(r->pool, answer, &form);
    if (rc != NGX_DECLINED) {
        return rc == NGX_OK ? edge_sign_in_form(r, edge_ctx(r), &form)
                            : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    location = edge_sign_in_text(r->pool, answer, "location", EDGE_SIGN_IN_LOCATION_MAX);
    return location.len ? edge_sign_in_redirect(r, edge_ctx(r), &location)
                        : edge_visit_fail(r, ERR_EDGE_SIGN_IN_UNAVAILABLE);
}


/* A message in the query string: its signature is over the octets as they came. */
static ngx_int_t
ask_logout_query(visit_t *visit)
{
    pack_t            pk;
    u_char           *start;
    const ngx_str_t  *query = &visit->request->args;
    shared_text_t    *sealed = route_sign_out(visit->route, MODULE_SAML);

    if (query->len == 0 || query->len > PARAMS_BYTES) {
        return edge_visit_fail(visit->request, ERR_EDGE_SIGN_IN_FAILED);
    }
    if (edge_sign_in_body(visit->request->pool, &pk, &start, query->len, 2) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put_clean(&pk, "query", query, PARAMS_BYTES);
    visit->finish = finish_logout;
    return edge_visit_ask(visit, "sign_in.saml_logout", start, &pk, sealed, LOGOUT_MS);
}


static ngx_int_t
ask_logout_form(visit_t *visit)
{
    pack_t          pk;
    u_char         *start;
    shared_text_t  *sealed = route_sign_out(visit->route, MODULE_SAML);

    if (edge_sign_in_body(visit->request->pool, &pk, &start,
                          visit->form_len + 16 * PARAMS_MAX, 2) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_visit_put_params(&pk, &visit->params);
    visit->finish = finish_logout;
    return edge_visit_ask(visit, "sign_in.saml_logout", start, &pk, sealed, LOGOUT_MS);
}


/* ---- responses ---- */

/* The host of the route that a RelayState names, which is a URL: one of its edge, with the port
 * that the edge is reached at. Else the route's first, and identity refuses what does not begin
 * with it. */
static ngx_str_t
find_host(visit_t *visit, const param_t *state)
{
    size_t         len, host_len;
    unsigned       port;
    ngx_str_t      text;
    const char    *at;
    const edge_t  *edge;
    const route_t *route = visit->route;

    if (state && state->value_len > 8 && ngx_memcmp(state->value, "https://", 8) == 0) {
        at = state->value + 8;
        for (len = 0; len < state->value_len - 8 && ngx_strchr("/?#", at[len]) == NULL; len++) {
            /* void */
        }
        port = 443;
        edge = authority_split(at, len, &host_len, &port) == 0
               ? table_edge(edge_worker_table(), at, host_len) : NULL;
        port = port ? port : 443;
        if (edge && ngx_strcmp(edge->id, route->edge_id) == 0
            && port == edge_conf()->https_port
            && (route->host_len == 0
                || (route->host_len == host_len
                    && ngx_memcmp(route->match, at, host_len) == 0)))
        {
            text.data = (u_char *) at;
            text.len = len;
            return text;
        }
    }
    return edge_visit_host(visit->request->pool, route);
}


static ngx_int_t
ask_response(visit_t *visit)
{
    pack_t               pk;
    u_char              *start;
    ngx_str_t            agent = ngx_null_string, host;
    ngx_str_t            cookie;
    edge_ctx_t          *ctx = edge_ctx(visit->request);
    const char          *home = visit->route->match + visit->route->host_len;
    const param_t       *state = params_one(&visit->params, "RelayState");
    const sign_in_t     *config = edge_visit_config(visit->route);
    ngx_http_request_t  *r = visit->request;

    if (params_one(&visit->params, "SAMLResponse") == NULL
        || (state && state->value_len > 2048))
    {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    if (r->headers_in.user_agent) {
        agent = r->headers_in.user_agent->value;
    }
    host = find_host(visit, state);
    cookie = edge_visit_cookie(visit, state);
    if (edge_sign_in_body(r->pool, &pk, &start,
                          visit->form_len + 2048 + cookie.len + host.len
                          + ngx_strlen(home) + ctx->client_ip.len + AGENT_MAX + 16 * PARAMS_MAX,
                          8 + (cookie.len ? 1 : 0)) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge_sign_in_put(&pk, "state", state ? state->value : "", state ? state->value_len : 0);
    edge_visit_put_params(&pk, &visit->params);
    edge_sign_in_put(&pk, "at", "acs", 3);
    if (cookie.len) {
        edge_sign_in_put_clean(&pk, "cookie", &cookie, EDGE_SIGN_IN_COOKIE_MAX);
    }
    edge_sign_in_put(&pk, "ip", ctx->client_ip.data, ctx->client_ip.len);
    edge_sign_in_put_clean(&pk, "user_agent", &agent, AGENT_MAX);
    edge_sign_in_put(&pk, "host", host.data, host.len);
    edge_sign_in_put(&pk, "home", home, ngx_strlen(home));
    visit->callback = 1;
    return edge_visit_ask(visit, "sign_in.callback", start, &pk, config->shared, RESPONSE_MS);
}


static ngx_int_t
take_form(ngx_http_request_t *r, ngx_str_t *text)
{
    char          *memory;
    size_t         len;
    visit_t       *visit = edge_visit_new(r);
    const u_char  *place;

    if (visit == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    place = find_place(visit, &len);
    if (place == NULL) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    memory = ngx_pnalloc(r->pool, text->len + 1);
    if (memory == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (params_parse_form(&visit->params, (char *) text->data, text->len, memory)) {
        return edge_visit_fail(r, ERR_EDGE_SIGN_IN_FAILED);
    }
    visit->form_len = text->len;
    return is_at(place, len, SLO) ? ask_logout_form(visit) : ask_response(visit);
}


static const edge_posted_to_t  message_form = { PARAMS_FORM_BYTES, take_form, edge_visit_fail };


ngx_int_t
edge_sign_in_saml_handler(ngx_http_request_t *r)
{
    size_t         len;
    visit_t       *visit = edge_visit_new(r);
    const u_char  *place;

    if (visit == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    place = find_place(visit, &len);
    if (place && len == 0 && (r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return ask_metadata(visit);
    }
    if (place && is_at(place, len, SLO) && r->method == NGX_HTTP_GET) {
        return ask_logout_query(visit);
    }
    if (place && (is_at(place, len, ACS) || is_at(place, len, SLO))
        && r->method == NGX_HTTP_POST)
    {
        return edge_posted_read(r, &message_form, visit->route);
    }
    return edge_visit_fail(r, ERR_EDGE_SIGN_IN_PATH);
}
