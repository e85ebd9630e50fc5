/* Requests that nginx refuses while it reads them, before they are routed. They get the edge's
 * error page and an event like all others, with the fields that are known. */
#include "services/edge/http/edge_refused.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_forwarded.h"
#include "services/edge/http/edge_host.h"
#include "services/edge/http/edge_route.h"
#include "services/edge/http/edge_sign_in_answer.h"
#include "services/edge/http/edge_handshake.h"
#include "services/edge/http/edge_suspend.h"
#include "services/edge/worker/edge_worker.h"
#include "services/edge/table/table.h"
#include "common/base/err.h"

#include <ctype.h>

typedef struct {
    ngx_uint_t  status;   /* r->err_status; 494 and 497 are nginx's internal codes */
    ngx_uint_t  code;
} refusal_t;

static const refusal_t  refusals[] = {
    { NGX_HTTP_BAD_REQUEST, ERR_EDGE_BAD_REQUEST },
    { NGX_HTTP_NOT_ALLOWED, ERR_EDGE_METHOD },
    { NGX_HTTP_REQUEST_URI_TOO_LARGE, ERR_EDGE_URI_TOO_LONG },
    { NGX_HTTP_MISDIRECTED_REQUEST, ERR_EDGE_MISDIRECTED },
    { NGX_HTTP_REQUEST_HEADER_TOO_LARGE, ERR_EDGE_HEADER_TOO_LARGE },
    { NGX_HTTP_TO_HTTPS, ERR_EDGE_PLAIN_HTTP },
    { NGX_HTTP_NOT_IMPLEMENTED, ERR_EDGE_TRANSFER_CODING },
    { NGX_HTTP_VERSION_NOT_SUPPORTED, ERR_EDGE_HTTP_VERSION },
    { 0, 0 }
};


/* ---- the host ---- */

static ngx_uint_t
count_hosts(ngx_http_request_t *r)
{
    ngx_uint_t        i, n = 0;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            n += header[i].key.len == 4
                 && ngx_memcmp(header[i].lowcase_key, "host", 4) == 0;
        }
    }
    return n;
}


/* No Host field though the head is complete, several, or one that nginx did not accept. */
static ngx_uint_t
is_bad_host(ngx_http_request_t *r)
{
    ngx_table_elt_t  *host = r->headers_in.host;

    if (host == NULL) {
        return r->http_state == NGX_HTTP_PROCESS_REQUEST_STATE
               && r->http_version > NGX_HTTP_VERSION_10;
    }
    return r->headers_in.server.len == 0 || count_hosts(r) > 1;
}


/* The event belongs to an edge's account only if both host and TLS server name are that edge's. */
static ngx_int_t
find_account(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_t  *edge;

    if (is_bad_host(r) || edge_host(r, ctx) != NGX_OK) {
        /* as received, for the event alone */
        ctx->host = r->headers_in.host ? r->headers_in.host->value
                                       : r->headers_in.server;
        ctx->authority = ctx->host;
        edge_sign_in_conceal_early(r, ctx, NULL);
        return NGX_OK;
    }
    edge = ctx->host.len ? table_edge(edge_worker_table(),
                                      (char *) ctx->host.data, ctx->host.len)
                         : NULL;
    edge_sign_in_conceal_early(r, ctx, edge);
    return edge && edge->present && edge_tls_agrees(r, edge, ctx) == NGX_OK
           ? edge_keep_account(r, ctx, edge) : NGX_OK;
}


/* ---- the request line ---- */

/* The request line as received, also where nginx could not parse it (like
 * ngx_http_variable_request_line). */
static ngx_str_t
raw_line(ngx_http_request_t *r)
{
    u_char     *p, *end;
    ngx_str_t   line = r->request_line;

    if (line.len == 0 && r->request_start && r->header_in) {
        line.data = r->request_start;
        line.len = r->header_in->last - r->request_start;
    }
    end = line.data + line.len;
    for (p = line.data; p < end && *p != CR && *p != LF; p++) { /* void */ }
    line.len = p - line.data;
    return line;
}


/* Sets method and target from a malformed line: what looks like a method at its beginning, and the
 * rest without a version at its end. */
static void
split_line(ngx_http_request_t *r, ngx_str_t line)
{
    size_t   version;
    u_char  *p = line.data, *end = line.data + line.len;

    while (p < end && (isalnum(*p) || *p == '-' || *p == '_')) {
        p++;
    }
    if (p == line.data || p == end || *p != ' ') {
        return;
    }
    r->method_name.data = line.data;
    r->method_name.len = p - line.data;
    while (p < end && *p == ' ') {
        p++;
    }
    version = sizeof(" HTTP/1.1") - 1;
    if (end - p > (ptrdiff_t) version
        && ngx_strncmp(end - version, " HTTP/", 6) == 0)
    {
        end -= version;
    }
    r->unparsed_uri.data = p;
    r->unparsed_uri.len = end - p;
}


/* Sets the target if nginx has not. The parser's pointers into the line are valid only once it has
 * read all of the line: before, they may point anywhere (ngx_http_alloc_large_header_buffer moves
 * them whether or not they were set). */
static void
find_target(ngx_http_request_t *r)
{
    u_char     *args;
    ngx_uint_t  read = r->request_line.len && r->request_end;

#if (NGX_HTTP_V2)
    read = read || r->stream;
#endif
    if (r->unparsed_uri.len) {
        return;
    }
    if (read && r->uri_start && r->uri_end > r->uri_start) {
        r->unparsed_uri.data = r->uri_start;
        r->unparsed_uri.len = r->uri_end - r->uri_start;
#if (NGX_HTTP_V2)
    } else if (r->stream) {
        return;
#endif
    } else {
        split_line(r, raw_line(r));
    }
    args = r->unparsed_uri.len
           ? ngx_strlchr(r->unparsed_uri.data,
                         r->unparsed_uri.data + r->unparsed_uri.len, '?')
           : NULL;
    if (args) {
        r->args.data = args + 1;
        r->args.len = r->unparsed_uri.data + r->unparsed_uri.len - args - 1;
    }
}


/* ---- both ---- */

edge_ctx_t *
edge_refused(ngx_http_request_t *r)
{
    edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx) {
        edge_suspend_abort(ctx);
        return ctx;
    }
    ctx = edge_ctx_new(r);
    if (ctx == NULL) {
        return NULL;
    }
    ctx->refused = 1;
    if (r->http_version < NGX_HTTP_VERSION_10) {
        r->http_version = NGX_HTTP_VERSION_10;   /* or the page would come without a status line */
    }
    r->keepalive = 0;   /* where the next request would begin is not known */
    /* a reset for unread bytes could destroy the response (RFC 9112 9.6) */
    r->lingering_close = 1;
    find_target(r);
    if (!edge_is_on(r)) {
        ctx->redirect = 1;
        return ctx;
    }
    edge_ring_counters(ngx_worker)->requests++;
    if (edge_forwarded_read(r, ctx) != NGX_OK || find_account(r, ctx) != NGX_OK)
    {
        ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                      "postern: no memory: an event says less than is known");
    }
    return ctx;
}


static ngx_uint_t
is_method(ngx_http_request_t *r, const char *name, size_t len)
{
    return r->method_name.len == len
           && ngx_memcmp(r->method_name.data, name, len) == 0;
}


ngx_uint_t
edge_refused_code(ngx_http_request_t *r)
{
    const refusal_t  *row;

    if (r->err_status == NGX_HTTP_BAD_REQUEST) {
        if (is_method(r, "CONNECT", 7)) {
            return ERR_EDGE_METHOD;   /* nginx cannot parse its target (RFC 9112 3.2.3) */
        }
        if (is_bad_host(r)) {
            return ERR_EDGE_BAD_HOST;
        }
    }
    for (row = refusals; row->status; row++) {
        if (row->status == (ngx_uint_t) r->err_status) {
            return row->code;
        }
    }
    return ERR_EDGE_INTERNAL;
}
