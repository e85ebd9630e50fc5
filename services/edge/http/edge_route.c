/* Routes a request: normalises host and path, finds the route, runs its modules in order. A denied
 * request never reaches the upstream: its content handler is replaced before the proxy runs. */
#include "services/edge/http/edge_route.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_cookies.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_forwarded.h"
#include "services/edge/http/edge_grpc.h"
#include "services/edge/http/edge_heads.h"
#include "services/edge/http/edge_hop.h"
#include "services/edge/http/edge_host.h"
#include "services/edge/http/edge_modules.h"
#include "services/edge/http/edge_page.h"
#include "services/edge/http/edge_restriction.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_sign_in_host.h"
#include "services/edge/http/edge_sign_in_url.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/http/edge_handshake.h"
#include "services/edge/http/edge_suspend.h"
#include "services/edge/http/edge_trace.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "common/base/err.h"
#include "common/codec/path.h"

/* The locations for upstreams with TLS, and for those that are asked over HTTP/2. Those of failover
 * backends, whose members may have TLS or not (edge_upstream.c), are in one with TLS. Locations,
 * because a proxy_pass with a variable scheme would be parsed for each request. */
static ngx_str_t  tls_location = ngx_string("@tls");
static ngx_str_t  grpc_location = ngx_string("@grpc");
static ngx_str_t  grpcs_location = ngx_string("@grpcs");

static ngx_uint_t
named(const ngx_table_elt_t *header, const header_t *name)
{
    return header->key.len == name->name_len
           && ngx_memcmp(header->lowcase_key, name->lower, name->name_len) == 0;
}


/* Normalises the path alone, up to '?'; path_normalize refuses a '#'. */
ngx_int_t
edge_route_normalize(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    u_char  *end, *out, *path;
    size_t   path_len, args_len, size, len;

    end = ngx_strlchr(r->unparsed_uri.data,
                      r->unparsed_uri.data + r->unparsed_uri.len, '?');
    path_len = end ? (size_t) (end - r->unparsed_uri.data)
                   : r->unparsed_uri.len;
    args_len = r->unparsed_uri.len - path_len;
    if (end && (ngx_strlchr(end, end + args_len, '#')
                || ngx_strlchr(end, end + args_len, '\0')))
    {
        return NGX_DECLINED;
    }
    path = r->unparsed_uri.data;
    if (path_len == 0 && r->host_end) {
        path = (u_char *) "/";   /* RFC 9112 3.2.1: the empty path of https://host?query */
        path_len = 1;
    }
    size = path_room((char *) path, path_len);
    out = ngx_pnalloc(r->pool, size + args_len);
    if (out == NULL) {
        return NGX_ERROR;
    }
    if (path_normalize((char *) path, path_len, (char *) out, size, &len))
    {
        return NGX_DECLINED;
    }
    ctx->path.data = out;
    ctx->path.len = len;
    if (args_len) {
        ngx_memcpy(out + len, end, args_len);
    }
    /* the proxy module sends unparsed_uri as it is */
    r->unparsed_uri.data = out;
    r->unparsed_uri.len = len + args_len;
    r->valid_unparsed_uri = 1;
    return NGX_OK;
}


/* Is this a request for a WebSocket (RFC 6455 4.1)? No other upgrade is supported. Upgrade counts
 * only if Connection names it (RFC 9110 7.8). */
static ngx_uint_t
is_websocket(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    ngx_table_elt_t  *upgrade = r->headers_in.upgrade;

    return upgrade && ctx->may_upgrade && r->method == NGX_HTTP_GET
           && r->http_version == NGX_HTTP_VERSION_11
           && upgrade->value.len == 9
           && ngx_strncasecmp(upgrade->value.data, (u_char *) "websocket", 9)
              == 0;
}


/* Connection-specific fields make an HTTP/2 request malformed (RFC 9113 8.2.2): passed on, they
 * could tell an HTTP/1.1 upstream a wrong end of the body. */
static ngx_uint_t
has_connection_fields(ngx_http_request_t *r)
{
    ngx_uint_t              i;
    ngx_list_part_t        *part;
    ngx_table_elt_t        *header;
    static const header_t   names[] = {
#define NAME(low)  { NULL, (char *) low, NULL, sizeof(low) - 1, 0, 0 }
        NAME("connection"), NAME("keep-alive"), NAME("proxy-connection"),
        NAME("transfer-encoding"), NAME("upgrade")
#undef NAME
    };

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            ngx_uint_t  n;

            for (n = 0; n < sizeof(names) / sizeof(names[0]); n++) {
                if (named(&header[i], &names[n])) {
                    return 1;
                }
            }
        }
    }
    return 0;
}


/* Denies where a module's document cannot be read, or asks for something that the edge cannot do:
 * traffic that it was meant to keep out would pass. modules has a bit for each; the first is
 * logged. */
static ngx_int_t
deny_unenforced(ngx_http_request_t *r, edge_ctx_t *ctx, uint32_t modules,
    ngx_uint_t code)
{
    ngx_uint_t  i = __builtin_ctz(modules);

    ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                  "postern: module %s of route %s cannot be enforced: "
                  "denied", module_names[i], ctx->route->id);
    return edge_deny(r, ctx, i, code, 0);
}


/* The location that asks the request's backend. NULL: the one that the request is in. */
static ngx_str_t *
location_of(const edge_ctx_t *ctx)
{
    ngx_uint_t  tls = ctx->backend->tls
                      || (ctx->failover && !ctx->backend->http_response);

    if (ctx->grpc) {
        return tls ? &grpcs_location : &grpc_location;
    }
    return tls ? &tls_location : NULL;
}


static ngx_int_t
run_modules_from(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_uint_t first)
{
    ngx_int_t   rc = edge_modules_run(r, ctx, first);
    ngx_str_t  *location;

    if (rc != NGX_DECLINED) {
        return rc;
    }
    if (edge_cookies_hide(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (!ctx->backend->http_response && edge_grpc_is_asked(r)
        && edge_grpc_begin(r, ctx) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    location = location_of(ctx);
    if (location) {
        ngx_http_named_location(r, location);
        ngx_http_finalize_request(r, NGX_DONE);
        return NGX_DONE;
    }
    return NGX_DECLINED;
}


static ngx_int_t
run_modules(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (ctx->route->beyond) {
        return deny_unenforced(r, ctx, ctx->route->beyond, ERR_EDGE_MODULE);
    }
    if ((ctx->route->enabled & (1u << MODULE_BACKEND)) == 0) {
        return edge_deny(r, ctx, MODULE_BACKEND, ERR_EDGE_NO_BACKEND, 0);
    }
    rc = edge_hop_hide(r, ctx);
    if (rc == NGX_DECLINED) {
        return edge_page(r, ctx, ERR_EDGE_BAD_REQUEST);
    }
    if (rc != NGX_OK || edge_forwarded_set(r, ctx) != NGX_OK
        || edge_trace_set(r, ctx) != NGX_OK)
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->upgrade = is_websocket(r, ctx);
    return run_modules_from(r, ctx, 0);
}


/* Continues a request whose module was suspended. The request is judged first: the configuration
 * may have changed meanwhile, and the sweep over open streams may not have reached it yet. */
static ngx_int_t
resume(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t   code, expired;
    module_id_t  module = edge_suspend_take(ctx, &expired);

    if (module == MODULE_COUNT) {   /* nginx ran the phases again without a resume */
        return edge_suspend_is_waiting(ctx) ? NGX_AGAIN
                                            : NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (expired) {
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: module %s of route %s waited for too long: "
                      "denied", module_names[module], ctx->route->id);
        return edge_deny(r, ctx, module, ERR_EDGE_MODULE, 0);
    }
    code = edge_streams_judge(r, ctx);
    if (code) {
        return edge_page(r, ctx, code);
    }
    edge_streams_again(ctx);
    return run_modules_from(r, ctx, module);
}


/* Copies the account's id for the event of a request that has no route: the edge may be freed
 * before the event is written, and without a route the request holds no reference to the id. */
ngx_int_t
edge_keep_account(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge)
{
    size_t  len = edge->account_id ? ngx_strlen(edge->account_id) : 0;

    if (len) {
        ctx->account_id.data = ngx_pnalloc(r->pool, len);
        if (ctx->account_id.data == NULL) {
            return NGX_ERROR;
        }
        ngx_memcpy(ctx->account_id.data, edge->account_id, len);
        ctx->account_id.len = len;
    }
    return NGX_OK;
}


static ngx_int_t
refuse(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge, int code)
{
    if (edge_keep_account(r, ctx, edge) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return edge_page(r, ctx, code);
}


/* Denies a route that could not be read. The event gets the edge's account: the route's own may be
 * unreadable. */
static ngx_int_t
refuse_route(ngx_http_request_t *r, edge_ctx_t *ctx, const edge_t *edge)
{
    if (ctx->route->broken == 0) {
        return refuse(r, ctx, edge, ERR_EDGE_ENTRY_REFUSED);
    }
    if (edge_keep_account(r, ctx, edge) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    return deny_unenforced(r, ctx, ctx->route->broken, ERR_EDGE_ENTRY_REFUSED);
}


/* HTTP/0.9 has no headers, and nginx has not initialised the list of them. The response is sent
 * with a status line all the same. */
ngx_uint_t
edge_route_is_http_09(ngx_http_request_t *r)
{
    if (r->http_version >= NGX_HTTP_VERSION_10) {
        return 0;
    }
    r->http_version = NGX_HTTP_VERSION_10;
    return 1;
}


/* The sign-in host has no edge, route, module or upstream. */
static ngx_int_t
go_to_sign_in_host(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_int_t  rc;

    if (!edge_tls_is_of_host(r, ctx)) {
        return edge_page(r, ctx, ERR_EDGE_MISDIRECTED);
    }
    if (r->http_version == NGX_HTTP_VERSION_20 && has_connection_fields(r)) {
        return edge_page(r, ctx, ERR_EDGE_BAD_REQUEST);
    }
    rc = edge_route_normalize(r, ctx);
    if (rc == NGX_DECLINED) {
        return edge_page(r, ctx, ERR_EDGE_BAD_REQUEST);
    }
    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    r->content_handler = edge_sign_in_host_handler;
    return NGX_OK;
}


/* The request is one of the edge's, over a connection that it may use. */
static ngx_int_t
route_at(ngx_http_request_t *r, edge_ctx_t *ctx, edge_t *edge)
{
    ngx_int_t   rc;
    ngx_uint_t  code = edge_restriction_begin(r, ctx, edge);

    if (code) {
        return refuse(r, ctx, edge, code);
    }
    if (edge_is_refused(edge)) {
        return refuse(r, ctx, edge, ERR_EDGE_ENTRY_REFUSED);
    }
    if (r->http_version == NGX_HTTP_VERSION_20 && has_connection_fields(r)) {
        return refuse(r, ctx, edge, ERR_EDGE_BAD_REQUEST);
    }
    rc = edge_route_normalize(r, ctx);
    if (rc == NGX_DECLINED) {
        return refuse(r, ctx, edge, ERR_EDGE_BAD_REQUEST);
    }
    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->route = table_route(edge, (char *) ctx->host.data, ctx->host.len,
                             (char *) ctx->path.data, ctx->path.len);
    if (ctx->route == NULL) {
        return refuse(r, ctx, edge, ERR_EDGE_NO_ROUTE);
    }
    ctx->route->refs++;
    ctx->account_id.data = (u_char *) ctx->route->account_id;
    ctx->account_id.len = ctx->route->account_id_len;
    if (!edge_share_charge_account(r, ctx)) {
        return edge_page(r, ctx, ERR_EDGE_CROWDED);
    }
    if (ctx->route->refused) {
        return refuse_route(r, ctx, edge);
    }
    if (edge_sign_in_is_stray(r, ctx->route)) {
        edge_sign_in_conceal(r, ctx);
        return edge_page(r, ctx, ERR_EDGE_SIGN_IN_FAILED);
    }
    edge_modules_prepare(r, ctx);
    edge_streams_add(r, ctx);
    return run_modules(r, ctx);
}


static ngx_int_t
route_request(ngx_http_request_t *r)
{
    edge_t      *edge;
    ngx_int_t    rc;
    edge_ctx_t  *ctx;

    ctx = edge_ctx_new(r);
    if (ctx == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    ctx->counted = edge_ring_begin();
    if (edge_forwarded_read(r, ctx) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    if (edge_route_is_http_09(r)) {
        return edge_page(r, ctx, ERR_EDGE_HTTP_VERSION);
    }
    if (!edge_share_charge(r, ctx)) {
        return edge_page(r, ctx, ERR_EDGE_CROWDED);
    }
    if (edge_heads_is_too_long(r)) {
        return edge_page(r, ctx, ERR_EDGE_HEADER_TOO_LARGE);
    }
    rc = edge_host(r, ctx);
    if (rc == NGX_DECLINED) {
        return edge_page(r, ctx, ERR_EDGE_BAD_HOST);
    }
    if (rc != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    edge = ctx->host.len ? table_edge(edge_worker_table(),
                                      (char *) ctx->host.data, ctx->host.len)
                         : NULL;
    edge_sign_in_conceal_early(r, ctx, edge);
    if (edge_sign_in_url_is(ctx)) {
        return go_to_sign_in_host(r, ctx);
    }
    if (edge == NULL || !edge->present) {
        edge_tls_check_name(r);
        return edge_page(r, ctx, ERR_EDGE_NO_HOST);
    }
    if (edge_tls_agrees(r, edge, ctx) != NGX_OK) {
        /* the event is not given to this account if the connection was made to another edge */
        return edge_tls_is_of(r, edge, ctx)
               ? refuse(r, ctx, edge, ERR_EDGE_MISDIRECTED)
               : edge_page(r, ctx, ERR_EDGE_MISDIRECTED);
    }
    return route_at(r, ctx, edge);
}


/* Pre-access phase of the HTTPS server; runs again when a suspended request is resumed. */
ngx_int_t
edge_route_handler(ngx_http_request_t *r)
{
    edge_ctx_t  *ctx;

    if (r->internal || r != r->main) {
        return NGX_DECLINED;   /* the error page of a request that was routed */
    }
    edge_worker_refresh();
    ctx = ngx_http_get_module_ctx(r, ngx_http_postern_module);
    return ctx && ctx->suspension ? resume(r, ctx) : route_request(r);
}
