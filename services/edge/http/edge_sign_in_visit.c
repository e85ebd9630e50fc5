/* A request at the sign-in host, from its beginning to the answer of identity: the route that it is
 * about, its place among the visits that ask, and the question itself. What is asked, and what
 * becomes of the answer, say edge_sign_in_host.c, edge_sign_in_saml.c and edge_sign_in_next.c. */
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/err.h"

enum { ROUTE_ID_MAX = 64 };

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
    cln->handler = leave;
    return visit;
}


const sign_in_t *
edge_visit_config(const route_t *route)
{
    return route->configs[__builtin_ctz(route->enabled & SIGN_IN_BITS)];
}


route_t *
edge_visit_find(const char *id, size_t len)
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
    route_t  *route = edge_visit_find(id, len);

    if (route == NULL || (route->enabled & SIGN_IN_BITS) == 0) {
        return NGX_DECLINED;
    }
    keep_route(visit, route);
    return NGX_OK;
}


ngx_int_t
edge_visit_saml(visit_t *visit, const char *id, size_t len)
{
    route_t  *route = edge_visit_find(id, len);

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


/* ---- questions ---- */

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
                                               : edge_visit_send(visit, answer));
    ngx_http_run_posted_requests(c);   /* r may have been freed */
}


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
