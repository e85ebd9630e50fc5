/* Each request has an id, which the client, the upstream and the event have in common. The
 * digits of the id are also those of the trace that begins here where the client sent no valid
 * traceparent. */
#include "services/edge/http/edge_trace.h"
#include "services/edge/http/edge_header.h"
#include "services/edge/worker/edge_conf.h"

#include <sodium.h>

enum { ID_BYTES = TRACE_ID_LEN / 2, PARENT_BYTES = 8, SAMPLE_BYTES = 2, POOL_BYTES = 2048 };

static header_t  id_field = {
    "Postern-Request-Id", "postern-request-id", NULL,
    sizeof("Postern-Request-Id") - 1, 0, 0
};
static ngx_http_log_handler_pt  say_rest;   /* nginx's: server, request line, upstream, host */

static header_t  parent_field = {
    "traceparent", "traceparent", NULL, sizeof("traceparent") - 1, 0, 0
};


/* Random bytes of which the kernel is asked for many at a time. They are no secrets. */
static const u_char *
draw(size_t len)
{
    static u_char  pool[POOL_BYTES];
    static size_t  left;

    if (left < len) {
        randombytes_buf(pool, sizeof(pool));
        left = sizeof(pool);
    }
    left -= len;
    return pool + left;
}


/* nginx calls this for each line of the log about the request, to say what it is of. The id and
 * the backend, of which nginx's "upstream" lacks the port, come before what the client sent: a line
 * that is long loses its end. */
static u_char *
say_id(ngx_http_request_t *r, ngx_http_request_t *sr, u_char *buf, size_t len)
{
    u_char            *p = buf;
    ngx_uint_t         is_v6;
    const edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx) {
        p = ngx_snprintf(buf, len, ", request_id: %s", ctx->request_id);
    }
    if (ctx && ctx->backend && ctx->backend->host) {
        is_v6 = ngx_strchr(ctx->backend->host, ':') != NULL;
        p = ngx_snprintf(p, len - (p - buf), ", backend: %s (%s%s%s:%d)",
                         ctx->backend->id, is_v6 ? "[" : "",
                         ctx->backend->host, is_v6 ? "]" : "",
                         (int) ctx->backend->port);
    }
    return say_rest(r, sr, p, len - (p - buf));
}


void
edge_trace_id(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    say_rest = r->log_handler;   /* the same of all requests */
    r->log_handler = say_id;
    ngx_memcpy(ctx->request_id, "req_", REQUEST_ID_PREFIX);
    trace_hex(draw(ID_BYTES), ID_BYTES, ctx->request_id + REQUEST_ID_PREFIX);
    ctx->request_id[REQUEST_ID_LEN] = '\0';
}


static ngx_uint_t
is_named(const ngx_table_elt_t *header, const char *name, size_t len)
{
    return header->key.len == len
           && ngx_memcmp(header->lowcase_key, name, len) == 0;
}

#define IS_NAMED(header, name)  is_named(header, name, sizeof(name) - 1)


/* Finds the client's traceparent. NULL: it has none, or several, or none that is valid; *others
 * says whether it has fields of a trace all the same. */
static ngx_table_elt_t *
find_parent(ngx_http_request_t *r, ngx_uint_t *others)
{
    ngx_uint_t        i, count = 0;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header, *found = NULL;

    *others = 0;
    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if (IS_NAMED(&header[i], "traceparent")) {
                found = &header[i];
                count++;
            } else if (IS_NAMED(&header[i], "tracestate")) {
                *others = 1;
            }
        }
    }
    if (count == 1
        && trace_parent_is_valid((char *) found->value.data, found->value.len))
    {
        return found;
    }
    *others = *others || count > 0;
    return NULL;
}


/* Hides the client's fields of a trace: a tracestate without a valid traceparent means nothing. */
static ngx_int_t
hide_trace(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t        i;
    ngx_list_part_t  *part;
    ngx_table_elt_t  *header;

    for (part = &r->headers_in.headers.part; part; part = part->next) {
        header = part->elts;
        for (i = 0; i < part->nelts; i++) {
            if ((IS_NAMED(&header[i], "traceparent")
                 || IS_NAMED(&header[i], "tracestate"))
                && edge_header_hide(r, ctx, &header[i]) != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }
    return NGX_OK;
}


/* Adds one of the edge's fields to the request. */
static ngx_int_t
add_field(ngx_http_request_t *r, edge_ctx_t *ctx, header_t *field,
    const char *value, size_t len)
{
    header_t  add;

    if (field->hash == 0) {
        field->hash = header_hash(field->lower);
    }
    add = *field;
    add.value = (char *) value;
    add.value_len = len;
    return edge_header_add(r, ctx, &add);
}


/* Begins a trace. A share of those that begin here is marked as to be recorded; programs that it
 * goes through usually do as the mark says. */
static ngx_int_t
begin_trace(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    const u_char  *random = draw(PARENT_BYTES + SAMPLE_BYTES);
    const u_char  *lot = random + PARENT_BYTES;
    ngx_uint_t     sampled;

    sampled = (ngx_uint_t) (lot[0] << 8 | lot[1]) * 100 >> 16
              < edge_conf()->trace_sampled;
    trace_begin(ctx->request_id + REQUEST_ID_PREFIX, random, sampled,
                ctx->traceparent);
    ctx->trace_id = ctx->request_id + REQUEST_ID_PREFIX;
    return add_field(r, ctx, &parent_field, ctx->traceparent,
                     TRACE_PARENT_LEN);
}


ngx_int_t
edge_trace_set(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_uint_t        others;
    ngx_table_elt_t  *parent = find_parent(r, &others);

    if (add_field(r, ctx, &id_field, ctx->request_id, REQUEST_ID_LEN)
        != NGX_OK)
    {
        return NGX_ERROR;
    }
    if (parent) {
        ctx->trace_id = (char *) parent->value.data + 3;
        return NGX_OK;
    }
    if (others && hide_trace(r, ctx) != NGX_OK) {
        return NGX_ERROR;
    }
    return begin_trace(r, ctx);
}


ngx_int_t
edge_trace_answer(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    header_t  add = id_field;

    add.value = ctx->request_id;
    add.value_len = REQUEST_ID_LEN;
    return edge_header_answer(r, &add);
}
