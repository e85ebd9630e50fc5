/* The head of an upstream's response: buffered until it is complete, checked (head.c), then handed
 * to nginx's proxy. Interim responses (1xx) before it go to the client (edge_interim.c) or are
 * dropped; they are never the final response. Fields are handed over as head.c parsed them: nginx
 * would parse them once more, byte by byte.
 *
 * nginx reads a head into one buffer of proxy_buffer_size. That stays small; a head that does not
 * fit gets a larger one, until it is whole. Who takes no answers keeps their heads: so large ones
 * are charged (edge_answer_memory.c). */
#include "services/edge/http/edge_head.h"
#include "services/edge/http/edge_answer_memory.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_interim.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/worker/edge_conf.h"

/* Limit of 1xx responses to one request: an upstream that sends them without end would keep the
 * worker in one loop. */
enum { INTERIMS_MAX = 100 };


static ngx_int_t
refuse(ngx_http_request_t *r, const char *why)
{
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "postern: the upstream's answer is no valid HTTP: %s", why);
    return NGX_HTTP_UPSTREAM_INVALID_HEADER;
}


/* ---- the head ---- */

/* A head of which there is no memory for more: the page says why (ctx->error). */
static ngx_int_t
refuse_crowded(void)
{
    return NGX_HTTP_UPSTREAM_INVALID_HEADER;
}


static ngx_uint_t
is_small(const edge_head_t *head, const ngx_buf_t *b)
{
    return head->small == NULL || b->start == head->small;
}


/* Makes room for more of the head when the buffer is full; a buffer that becomes too small is freed
 * at once, but for the first one, which is the request's own. */
static ngx_int_t
make_room(ngx_http_request_t *r, edge_ctx_t *ctx, ngx_buf_t *b)
{
    size_t   used = b->last - b->pos, size = b->end - b->start;
    u_char  *larger;

    if (b->last < b->end) {
        return NGX_AGAIN;
    }
    if (b->pos > b->start) {   /* over 1xx responses that are done with */
        ngx_memmove(b->start, b->pos, used);
        b->pos = b->start;
        b->last = b->start + used;
        return NGX_AGAIN;
    }
    if (size >= edge_conf()->response_header_size) {
        return refuse(r, "a head larger than postern_response_header_size");
    }
    size = ngx_min(2 * size, edge_conf()->response_header_size);
    if (!edge_answer_charge(r, ctx, size)) {
        return refuse_crowded();
    }
    larger = ngx_palloc(r->pool, size);
    if (larger == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(larger, b->pos, used);
    if (is_small(&ctx->head, b)) {
        ctx->head.small = b->start;
        ctx->head.small_end = b->end;
    } else {
        (void) ngx_pfree(r->pool, b->start);
    }
    b->start = larger;
    b->pos = larger;
    b->last = larger + used;
    b->end = larger + size;
    return NGX_AGAIN;
}


/* What is left of the buffer, once the fields are copied: status line, empty line, and what came
 * behind the head. */
static size_t
left_bytes(const head_t *head, const ngx_buf_t *b)
{
    return head_status_len((char *) b->pos, head->len) + sizeof(CRLF) - 1
           + (b->last - b->pos) - head->len;
}


/* Bytes of the larger buffer that stay the request's: none, where its own one has room for what is
 * left. */
static size_t
large_bytes(const edge_head_t *head, const ngx_buf_t *b)
{
    return is_small(head, b)
           || left_bytes(&head->scan, b) <= (size_t) (head->small_end - head->small)
           ? 0 : b->end - b->start;
}


/* The larger buffer has served. */
static void
return_to_small(ngx_http_request_t *r, const edge_head_t *head, ngx_buf_t *b)
{
    size_t   left = b->last - b->pos;
    u_char  *large = b->start;

    if (is_small(head, b) || left > (size_t) (head->small_end - head->small)) {
        return;
    }
    b->start = head->small;
    b->end = head->small_end;
    b->last = ngx_cpymem(head->small, b->pos, left);
    b->pos = head->small;
    (void) ngx_pfree(r->pool, large);
}


/* May a body follow, though the response has none by definition? nginx would drop the bytes in the
 * buffer and take later ones for the next response, so the connection must not be used again. With
 * HEAD and 304 Content-Length describes the response to a GET, and most upstreams send nothing
 * behind it; but one that does not know HEAD sends the body in a packet of its own, a moment later,
 * when the connection would be another visitor's. */
static ngx_uint_t
may_have_bytes_behind(ngx_http_request_t *r, const head_t *head)
{
    ngx_http_upstream_t  *u = r->upstream;

    return (r->method == NGX_HTTP_HEAD
            || head->status == NGX_HTTP_NO_CONTENT
            || head->status == NGX_HTTP_NOT_MODIFIED)
           && (head->chunked || head->length > 0 || u->buffer.pos != u->buffer.last);
}


/* Adds one field as nginx's own parser does: both texts end with NUL, and the handler of a known
 * name is called. */
static ngx_int_t
give_field(ngx_http_request_t *r, const head_field_t *field, u_char *lower,
    ngx_uint_t hash)
{
    ngx_table_elt_t                *h;
    ngx_http_upstream_header_t     *known;
    ngx_http_upstream_main_conf_t  *conf;

    h = ngx_list_push(&r->upstream->headers_in.headers);
    if (h == NULL) {
        return NGX_ERROR;
    }
    h->key.data = (u_char *) field->name;
    h->key.len = field->name_len;
    h->value.data = (u_char *) field->value;
    h->value.len = field->value_len;
    h->lowcase_key = lower;
    h->hash = hash;
#if (nginx_version >= 1023000)
    h->next = NULL;
#endif
    h->key.data[h->key.len] = '\0';
    h->value.data[h->value.len] = '\0';
    lower[h->key.len] = '\0';
    conf = ngx_http_get_module_main_conf(r, ngx_http_upstream_module);
    known = ngx_hash_find(&conf->headers_in_hash, h->hash, lower, h->key.len);
    return known ? known->handler(r, h, known->offset) : NGX_OK;
}


/* Adds all fields from a copy of the head, since the body reuses the buffer. In the buffer only the
 * status line and the empty line remain, for nginx to parse. */
static ngx_int_t
give_fields(ngx_http_request_t *r, const head_t *scan)
{
    size_t         at, status;
    u_char        *text, *lower;
    ngx_buf_t     *b = &r->upstream->buffer;
    ngx_int_t      rc;
    ngx_uint_t     hash;
    head_field_t   field;

    text = ngx_pnalloc(r->pool, scan->len + scan->names + scan->fields);
    if (text == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(text, b->pos, scan->len);
    lower = text + scan->len;
    status = head_status_len((char *) text, scan->len);
    at = status;
    while (head_next_folded((char *) text, scan->len, &at, &field,
                            (char *) lower, &hash))
    {
        rc = give_field(r, &field, lower, hash);
        if (rc != NGX_OK) {
            return rc;
        }
        lower += field.name_len + 1;
    }
    b->pos += at - status;
    ngx_memcpy(b->pos, text, status);
    return NGX_OK;
}


/* A body that the upstream may not have read: with a method that gives it no meaning (RFC 9110,
 * 9.3) or that the upstream may not know, or where it did not do what was asked. One that does not
 * look at it takes it for the next request, which is then somebody's choice of an answer to whoever
 * comes next. */
static ngx_uint_t
may_have_left_body(const ngx_http_request_t *r, ngx_uint_t status)
{
    return (r->headers_in.content_length_n > 0 || r->headers_in.chunked)
           && (!(r->method & (NGX_HTTP_POST | NGX_HTTP_PUT | NGX_HTTP_PATCH
                              | NGX_HTTP_PROPFIND | NGX_HTTP_PROPPATCH
                              | NGX_HTTP_LOCK))
               || status >= NGX_HTTP_SPECIAL_RESPONSE);
}


/* The final head is complete and was accepted by head.c. */
static ngx_int_t
give_to_proxy(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_int_t             rc;
    ngx_http_upstream_t  *u = r->upstream;

    if (ctx->head.scan.status == NGX_HTTP_SWITCHING_PROTOCOLS
        && (!ctx->upgrade || !ctx->head.scan.websocket))
    {
        return refuse(r, ctx->upgrade ? "101 to what was not asked for"
                                      : "101 that was not asked for");
    }
    u->buffer.pos += head_end_hop(&ctx->head.scan, (char *) u->buffer.pos);
    if (!edge_answer_charge(r, ctx, edge_answer_head(r, &ctx->head.scan)
                                    + large_bytes(&ctx->head, &u->buffer)))
    {
        return refuse_crowded();
    }
    rc = give_fields(r, &ctx->head.scan);
    if (rc != NGX_OK) {
        return rc;
    }
    return_to_small(r, &ctx->head, &u->buffer);
    u->process_header = ctx->head.parse;
    rc = u->process_header(r);
    if (rc == NGX_AGAIN) {
        return refuse(r, "a head that nginx reads otherwise");
    }
    if (rc == NGX_OK && u->upgrade && edge_streams_upgrade(r, ctx)) {
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;   /* the page says why: ctx->error */
    }
    if (rc == NGX_OK && (may_have_bytes_behind(r, &ctx->head.scan)
                         || may_have_left_body(r, u->headers_in.status_n)))
    {
        u->headers_in.connection_close = 1;
        u->keepalive = 0;
    }
    return rc;
}


static ngx_int_t
process_head(ngx_http_request_t *r)
{
    ngx_buf_t    *b = &r->upstream->buffer;
    edge_ctx_t   *ctx = edge_ctx(r);
    const char   *why;
    edge_head_t  *head;

    if (ctx == NULL) {
        return NGX_ERROR;
    }
    if (r->upstream->peer.cached && r->upstream->peer.connection->sent == 0) {
        return refuse(r, "an answer on a kept connection before the request was sent");
    }
    head = &ctx->head;
    edge_failover_stands(r, ctx);
    for ( ;; ) {
        switch (head_scan(&head->scan, (char *) b->pos, b->last - b->pos, &why))
        {
        case HEAD_BAD:
            return refuse(r, why);
        case HEAD_MORE:
            return make_room(r, ctx, b);
        case HEAD_WHOLE:
            break;
        }
        if (!head_is_interim(&head->scan)) {
            return give_to_proxy(r, ctx);
        }
        head->interim_bytes += head->scan.len;
        if (++head->interims > INTERIMS_MAX
            || head->interim_bytes > edge_conf()->response_header_size)
        {
            return refuse(r, "too many answers of 1xx");
        }
        edge_interim_pass(r, ctx, (char *) b->pos);
        b->pos += head->scan.len;
        head_begin(&head->scan);
    }
}


/* nginx repeats the request on another connection, since the upstream closed a kept one. */
static ngx_int_t
reinit_request(ngx_http_request_t *r)
{
    ngx_int_t    rc;
    edge_ctx_t  *ctx = edge_ctx(r);

    if (ctx == NULL) {
        return NGX_ERROR;
    }
    rc = ctx->head.reinit(r);
    head_begin(&ctx->head.scan);
    ctx->head.parse = r->upstream->process_header;
    r->upstream->process_header = process_head;
    return rc;
}


void
edge_head_watch(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_http_upstream_t  *u = r->upstream;

    head_begin(&ctx->head.scan);
    ctx->head.small = NULL;
    ctx->head.parse = u->process_header;
    ctx->head.reinit = u->reinit_request;
    u->process_header = process_head;
    u->reinit_request = reinit_request;
}
