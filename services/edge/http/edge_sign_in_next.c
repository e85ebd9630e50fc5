/* Where a browser goes next, as identity says: by a redirect, by a form, or, of a flow that it has
 * no more, back to the route. Its flow's cookie begins and ends here. */
#include "services/edge/http/edge_flow_cookies.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_form.h"
#include "services/edge/http/edge_sign_in_visit.h"
#include "services/edge/modules/module.h"
#include "common/base/err.h"


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


/* Is the state one of a flow of the route? A RelayState may be anything. */
static ngx_uint_t
names_flow(const visit_t *visit)
{
    const size_t  len = ngx_strlen(visit->route->id);

    return visit->state.len > len + 1 + FLOW_NAME_LEN
           && ngx_memcmp(visit->state.data, visit->route->id, len) == 0
           && visit->state.data[len] == '.';
}


/* Of a flow that this browser has not, or has no more: it may have signed in at the route by now,
 * in another tab, and goes on there; or it does so in a moment, as when more tabs sign in at once
 * than flows have places. Else the route's host has the page that says so. NGX_DECLINED: nobody is
 * sent. */
static ngx_int_t
send_on(visit_t *visit)
{
    ngx_str_t            host, location;
    ngx_http_request_t  *r = visit->request;

    if (!visit->callback || !names_flow(visit)
        || !visit->saml != !(visit->route->enabled & 1u << MODULE_SAML))
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


ngx_int_t
edge_visit_send(visit_t *visit, const ask_answer_t *answer)
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
