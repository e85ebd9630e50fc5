/* Variables of nginx.conf: what the proxy asks an upstream with, and where error_page leads. */
#include "services/edge/http/edge_variables.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_refused.h"
#include "services/edge/http/edge_share.h"
#include "common/base/err.h"


static ngx_int_t
set_value(ngx_http_variable_value_t *v, const char *text, size_t len)
{
    v->data = (u_char *) text;
    v->len = len;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;
    return NGX_OK;
}


/* What the upstream's certificate must be for. */
static ngx_int_t
name_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    (void) data;
    return ctx && ctx->backend
           ? set_value(v, ctx->backend->host, ngx_strlen(ctx->backend->host))
           : set_value(v, "", 0);
}


static ngx_int_t
host_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_ctx(r);
    ngx_str_t   *host;

    (void) data;
    if (ctx == NULL) {
        return set_value(v, "", 0);
    }
    host = ctx->upstream_host.len ? &ctx->upstream_host : &ctx->authority;
    return set_value(v, (char *) host->data, host->len);
}


static ngx_int_t
upgrade_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx == NULL || !ctx->upgrade) {
        return set_value(v, "", 0);
    }
    return data ? set_value(v, "upgrade", 7) : set_value(v, "websocket", 9);
}


/* Where error_page sends requests. nginx goes to a named location only with a URI, and there is
 * none where the request line could not be read. */
static ngx_int_t
go_to(ngx_http_request_t *r, ngx_http_variable_value_t *v, const char *location)
{
    if (r->uri.len == 0) {
        ngx_str_set(&r->uri, "/");
    }
    return set_value(v, location, ngx_strlen(location));
}


/* The servers of the accounts' hosts: the location itself has its name in one place. */
static ngx_int_t
error_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    edge_ctx_t  *ctx = edge_refused(r);

    (void) data;
    if (ctx == NULL) {
        return NGX_ERROR;
    }
    if (!edge_share_charge(r, ctx)) {
        ctx->error = ERR_EDGE_CROWDED;
    }
    return go_to(r, v, "@error");
}


/* A server of another kind, which has its own page and leaves no event. An error ends the request
 * without a page. */
static ngx_int_t
refused_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    (void) data;
    if (!edge_share_charge_plain(r)) {
        return NGX_ERROR;
    }
    return go_to(r, v, "@refused");
}


static ngx_http_variable_t  variables[] = {
    { ngx_string("postern_error"), NULL, error_variable, 0, 0, 0 },
    { ngx_string("postern_refused"), NULL, refused_variable, 0, 0, 0 },
    { ngx_string("postern_name"), NULL, name_variable, 0, NGX_HTTP_VAR_NOCACHEABLE, 0 },
    { ngx_string("postern_host"), NULL, host_variable, 0, 0, 0 },
    { ngx_string("postern_upgrade"), NULL, upgrade_variable, 0, 0, 0 },
    { ngx_string("postern_connection"), NULL, upgrade_variable, 1, 0, 0 },
      ngx_http_null_variable
};


ngx_int_t
edge_variables_add(ngx_conf_t *cf)
{
    ngx_http_variable_t  *v, *added;

    for (v = variables; v->name.len; v++) {
        added = ngx_http_add_variable(cf, &v->name, v->flags);
        if (added == NULL) {
            return NGX_ERROR;
        }
        added->get_handler = v->get_handler;
        added->data = v->data;
    }
    return NGX_OK;
}
