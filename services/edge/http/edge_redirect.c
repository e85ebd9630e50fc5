/* Plain HTTP: hosts that have an edge, and the sign-in host, are redirected to HTTPS. */
#include "services/edge/http/edge_redirect.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_host.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_restriction.h"
#include "services/edge/http/edge_route.h"
#include "services/edge/http/edge_sign_in_url.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_worker.h"
#include "common/base/err.h"


/* The same URL, by HTTPS. */
static ngx_int_t
set_location(ngx_http_request_t *r, const ngx_str_t *host)
{
    char              port[16] = "";
    ngx_table_elt_t  *location;

    if (edge_conf()->https_port != 443) {
        snprintf(port, sizeof(port), ":%u",
                 (unsigned) edge_conf()->https_port);
    }
    ngx_http_clear_location(r);
    location = ngx_list_push(&r->headers_out.headers);
    if (location == NULL) {
        return NGX_ERROR;
    }
    location->hash = 0;   /* not sent as long as it has no value */
    ngx_str_set(&location->key, "Location");
#if (nginx_version >= 1023000)
    location->next = NULL;
#endif
    location->value.data = ngx_pnalloc(r->pool, host->len + r->unparsed_uri.len
                                                + 32);
    if (location->value.data == NULL) {
        return NGX_ERROR;
    }
    location->value.len = ngx_sprintf(location->value.data, "https://%V%s%V",
                                      host, port, &r->unparsed_uri)
                          - location->value.data;
    location->hash = 1;
    r->headers_out.location = location;
    return NGX_OK;
}


/* 0: the host has an edge that the client may use | the code to refuse with. */
static ngx_uint_t
check_redirected(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_str_t  *host = &ctx->host;
    edge_t     *edge = host->len ? table_edge(edge_worker_table(), (char *) host->data, host->len)
                                 : NULL;

    return edge && edge->present ? edge_restriction_begin(r, ctx, edge) : ERR_EDGE_NO_HOST;
}


ngx_int_t
edge_redirect_handler(ngx_http_request_t *r)
{
    ngx_int_t    rc;
    edge_ctx_t  *ctx;

    edge_worker_refresh();
    ctx = edge_ctx_new(r);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->redirect = 1;
    edge_body_discard(r, ctx);
    if (edge_route_is_http_09(r)) {
        ctx->error = ERR_EDGE_HTTP_VERSION;
        return edge_error_handler(r);
    }
    rc = edge_host(r, ctx);
    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (rc == NGX_DECLINED) {
        ctx->error = ERR_EDGE_BAD_HOST;
        return edge_error_handler(r);
    }
    ctx->error = edge_sign_in_url_is(ctx) ? 0 : check_redirected(r, ctx);
    if (ctx->error) {
        return edge_error_handler(r);
    }
    if (edge_route_normalize(r, ctx) != NGX_OK) {
        ctx->error = ERR_EDGE_BAD_REQUEST;
        return edge_error_handler(r);
    }
    if (set_location(r, &ctx->host) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->headers_out.status = r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD)
                            ? NGX_HTTP_MOVED_PERMANENTLY
                            : NGX_HTTP_PERMANENT_REDIRECT;
    r->headers_out.content_length_n = 0;
    r->header_only = 1;
    return ngx_http_send_header(r);
}
