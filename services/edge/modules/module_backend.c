/* backend: a static upstream through nginx's proxy, or a fixed answer of the edge. */
#include "services/edge/control/edge_resolve.h"
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/modules/module.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "services/edge/table/document.h"
#include "services/edge/http/edge_event.h"
#include "services/edge/table/slab.h"
#include "common/base/err.h"


/* Content handler of an http_response backend. The strings that it sends live as long as
 * ctx->backend. */
static ngx_int_t
send_response(ngx_http_request_t *r)
{
    size_t        i;
    ngx_buf_t    *b;
    ngx_int_t     rc;
    ngx_chain_t   out;
    edge_ctx_t   *ctx = edge_ctx(r);
    backend_t    *backend = ctx->backend;

    rc = edge_body_discard(r, ctx);
    if (rc != NGX_OK) {
        return rc;
    }
    r->headers_out.status = backend->status;
    r->headers_out.content_length_n = backend->body_len;
    ngx_str_set(&r->headers_out.content_type, "text/plain");
    r->headers_out.content_type_len = r->headers_out.content_type.len;
    for (i = 0; i < backend->headers.add_count; i++) {
        if (edge_header_answer(r, &backend->headers.add[i]) != NGX_OK) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }
    }
    if (backend->status == NGX_HTTP_NO_CONTENT || backend->status == 304
        || backend->body_len == 0)
    {
        r->header_only = 1;
        if (backend->status == NGX_HTTP_NO_CONTENT || backend->status == 304) {
            ngx_http_clear_content_length(r);
        }
    }
    rc = ngx_http_send_header(r);
    if (rc == NGX_ERROR || rc > NGX_OK || r->header_only) {
        return rc;
    }
    b = ngx_calloc_buf(r->pool);
    if (b == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }
    b->pos = (u_char *) backend->body;
    b->last = b->pos + backend->body_len;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;
    out.buf = b;
    out.next = NULL;
    return ngx_http_output_filter(r, &out);
}


/* Only the backend's id is kept: a backend is created, changed and deleted independently of the
 * routes that refer to it. */
static void *
parse(const msgpack_object *document, bool *bad)
{
    return document_str(document, "backend_id", bad);
}


static unsigned
entries(const void *config, const char **ids)
{
    ids[0] = config;
    return config != NULL;
}


static ngx_int_t
run(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    backend_t                *backend = NULL;
    struct sockaddr_storage   address;

    if (config) {
        backend = table_backend(edge_worker_table(), config);
        if (backend && backend->choices) {
            backend = table_choose(edge_worker_table(), backend,
                                   (uint32_t) ngx_random());
        }
    }
    if (backend == NULL) {
        return edge_deny(r, ctx, MODULE_BACKEND, ERR_EDGE_NO_BACKEND, 0);
    }
    backend->refs++;
    ctx->backend = backend;
    if (backend->http_response) {
        r->content_handler = send_response;
    } else if (edge_resolve_address(backend, &address) == 0) {
        /* the backend's host name does not resolve */
        return edge_deny(r, ctx, MODULE_BACKEND, ERR_EDGE_REFUSED, 0);
    }
    return NGX_DECLINED;
}


static ngx_uint_t
leads_to(const backend_t *backend, const char *id)
{
    size_t  i;

    if (backend->choices == NULL) {
        return ngx_strcmp(backend->id, id) == 0;
    }
    for (i = 0; i < backend->choice_count; i++) {
        if (ngx_strcmp(backend->choices[i].id, id) == 0) {
            return 1;
        }
    }
    return 0;
}


static ngx_uint_t
is_same_upstream(const backend_t *one, const backend_t *other)
{
    return one->host == NULL || other->host == NULL
           || (ngx_strcmp(one->host, other->host) == 0
               && one->port == other->port && one->tls == other->tls);
}


/* A deleted backend ends its requests. Where the backend has another address by now, or the route
 * another backend, requests may finish: only upgraded connections, which could stay for ever,
 * end. */
static ngx_uint_t
judge(ngx_http_request_t *r, edge_ctx_t *ctx, const void *config)
{
    backend_t  *now, *backend;

    if (ctx->backend == NULL) {
        return 0;   /* not chosen yet */
    }
    backend = config ? table_backend(edge_worker_table(), config) : NULL;
    now = table_backend(edge_worker_table(), ctx->backend->id);
    if (backend == NULL || now == NULL) {
        return ERR_EDGE_NO_BACKEND;
    }
    if (now == ctx->backend && backend == now) {
        return 0;
    }
    if (r->upstream == NULL || !r->upstream->upgrade
        || (leads_to(backend, now->id) && is_same_upstream(now, ctx->backend)))
    {
        return 0;
    }
    return ERR_EDGE_CHANGED;
}


static void
describe(pack_t *pk, ngx_http_request_t *r, edge_ctx_t *ctx)
{
    (void) ctx;
    EVENT_BOOL(EVENT_BACKEND_CONNECTION_REUSED,
               r->upstream && r->upstream->peer.cached);
}


const edge_module_t  module_backend = {
    .parse = parse,
    .free = slab_free,
    .run = run,
    .judge = judge,
    .entries = entries,
    .entries_max = 1,
    .describe = describe,
};
