/* The head of an upstream's response: buffered until it is complete, checked (head.c), then handed
 * to nginx's proxy. Interim responses (1xx) before it go to the client or are dropped; they are
 * never the final response. Fields are handed over as head.c parsed them: nginx would parse them
 * once more, byte by byte.
 *
 * nginx reads a head into one buffer of proxy_buffer_size. That stays small; a head that does not
 * fit gets a larger one. */
#include "services/edge/http/edge_head.h"
#include "services/edge/http/edge_cookies.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_streams.h"
#include "services/edge/modules/module_response_headers.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/table/table.h"

/* Limits of 1xx responses to one request, and of one that is passed on (bytes): an upstream that
 * sends them without end would keep the worker in one loop. */
enum { INTERIMS_MAX = 100, INTERIM_PASSED_MAX = 8192 };


static ngx_int_t
refuse(ngx_http_request_t *r, const char *why)
{
    ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                  "postern: the upstream's answer is no valid HTTP: %s", why);
    return NGX_HTTP_UPSTREAM_INVALID_HEADER;
}


/* ---- 1xx ---- */

static ngx_uint_t
passes(edge_ctx_t *ctx, const head_field_t *field)
{
    return head_field_passes(field)
           && !edge_response_removes(ctx->route, field->name, field->name_len)
           && !(head_field_is(field, "Set-Cookie")
                && edge_cookies_sets(ctx, field->value, field->value_len));
}


/* Upper bound of the head's size as text or as HPACK; 0: do not pass it on. 100 is not passed on:
 * nginx has answered the client's expectation itself. Nor is a head with a Connection field, so
 * that nothing needs to look for the fields which that field names. */
static size_t
interim_bytes(const char *head, const head_t *scan)
{
    size_t        at = 0, bytes = scan->len + 32;
    head_field_t  field;

    if (scan->status == 100 || scan->len > INTERIM_PASSED_MAX) {
        return 0;
    }
    while (head_next(head, scan->len, &at, &field)) {
        if (head_field_is(&field, "Connection")) {
            return 0;
        }
        bytes += 16;
    }
    return bytes;
}


/* Written straight to the write filter: bytes that the socket does not take stay queued before the
 * final response. */
static void
pass_interim(ngx_http_request_t *r, edge_ctx_t *ctx, const char *head)
{
    size_t         at = 0, bytes = interim_bytes(head, &ctx->head.scan);
    ngx_buf_t     *b;
    ngx_chain_t    out;
    head_field_t   field;

    b = bytes ? ngx_create_temp_buf(r->pool, bytes) : NULL;
    if (b == NULL) {
        return;
    }
    b->last = ngx_sprintf(b->last, "HTTP/1.1 %ui \r\n",
                          (ngx_uint_t) ctx->head.scan.status);
    while (head_next(head, ctx->head.scan.len, &at, &field)) {
        if (passes(ctx, &field)) {
            b->last = ngx_cpymem(b->last, field.name, field.name_len);
            *b->last++ = ':';
            *b->last++ = ' ';
            b->last = ngx_cpymem(b->last, field.value, field.value_len);
            *b->last++ = CR;
            *b->last++ = LF;
        }
    }
    *b->last++ = CR;
    *b->last++ = LF;
    b->flush = 1;
    out.buf = b;
    out.next = NULL;
    ctx->head.passed += b->last - b->pos;
    (void) ngx_http_write_filter(r, &out);   /* the final response meets its error */
}


#if (NGX_HTTP_V2)

/* A string literal without Huffman coding (RFC 7541 5.2), its length with a 7-bit prefix (5.1). */
static u_char *
put_hpack_text(u_char *at, const char *text, size_t len, ngx_uint_t lower)
{
    size_t  rest = len;

    if (rest < 127) {
        *at++ = (u_char) rest;
    } else {
        *at++ = 127;
        for (rest -= 127; rest >= 128; rest >>= 7) {
            *at++ = (u_char) (rest | 128);
        }
        *at++ = (u_char) rest;
    }
    if (lower) {
        ngx_strlow(at, (u_char *) text, len);
        return at + len;
    }
    return ngx_cpymem(at, text, len);
}


/* The one interim response that a connection may have in its output queue. The frame belongs to the
 * connection, like a PING, not to the stream: versions of nginx count a stream's queued frames
 * differently, and free a stream with frames still queued that were not counted. */
typedef struct {
    u_char                  *bytes;   /* NULL: none is queued */
    ngx_buf_t                buf;
    ngx_chain_t              link;
    ngx_http_v2_out_frame_t  frame;   /* here, since nginx reads it once more after its handler */
} interim_frame_t;


static void
free_interim(void *data)
{
    interim_frame_t  *self = data;

    ngx_free(self->bytes);
    self->bytes = NULL;
}


static interim_frame_t *
interim_frame(ngx_connection_t *c)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == free_interim) {
            return cln->data;
        }
    }
    cln = ngx_pool_cleanup_add(c->pool, sizeof(interim_frame_t));
    if (cln == NULL) {
        return NULL;
    }
    ngx_memzero(cln->data, sizeof(interim_frame_t));
    cln->handler = free_interim;
    return cln->data;
}


/* The frame has been written in full or in part. Its stream may have been freed. */
static ngx_int_t
on_interim_sent(ngx_http_v2_connection_t *h2c, ngx_http_v2_out_frame_t *frame)
{
    if (frame->first->buf->pos != frame->first->buf->last) {
        return NGX_AGAIN;
    }
    h2c->total_bytes += NGX_HTTP_V2_FRAME_HEADER_SIZE + frame->length;
    h2c->payload_bytes += frame->length;
    free_interim(interim_frame(h2c->connection));
    return NGX_OK;
}


/* Prefixes the frame's header and queues the frame. The queue is empty, so it is sent first; nginx
 * lets no frame overtake one without a stream, so the final response follows it. */
static void
queue_interim(ngx_http_v2_stream_t *stream, interim_frame_t *hint, size_t len)
{
    u_char                   *at = hint->bytes;
    ngx_buf_t                *b = &hint->buf;
    ngx_http_v2_out_frame_t  *frame = &hint->frame;

    at[0] = (u_char) (len >> 16);
    at[1] = (u_char) (len >> 8);
    at[2] = (u_char) len;
    at[3] = NGX_HTTP_V2_HEADERS_FRAME;
    at[4] = NGX_HTTP_V2_END_HEADERS_FLAG;
    at[5] = (u_char) (stream->node->id >> 24);
    at[6] = (u_char) (stream->node->id >> 16);
    at[7] = (u_char) (stream->node->id >> 8);
    at[8] = (u_char) stream->node->id;
    ngx_memzero(b, sizeof(ngx_buf_t));
    b->start = at;
    b->pos = at;
    b->last = at + NGX_HTTP_V2_FRAME_HEADER_SIZE + len;
    b->end = b->last;
    b->memory = 1;
    b->flush = 1;
    hint->link.buf = b;
    hint->link.next = NULL;
    ngx_memzero(frame, sizeof(ngx_http_v2_out_frame_t));
    frame->first = &hint->link;
    frame->last = &hint->link;
    frame->handler = on_interim_sent;
    frame->length = len;
    frame->blocked = 1;
    ngx_http_v2_queue_blocked_frame(stream->connection, frame);
}


/* A HEADERS frame without END_STREAM (RFC 9113 8.1). Literals without indexing do not change the
 * HPACK table. */
static void
pass_interim_v2(ngx_http_request_t *r, edge_ctx_t *ctx, const char *head)
{
    size_t                     at = 0, bytes;
    u_char                    *start, *end, status[4];
    head_field_t               field;
    interim_frame_t           *hint;
    ngx_http_v2_stream_t      *stream = r->stream;
    ngx_http_v2_connection_t  *h2c = stream->connection;

    bytes = interim_bytes(head, &ctx->head.scan);
    if (bytes == 0 || bytes > h2c->frame_size || h2c->last_out || h2c->goaway
        || stream->queued || stream->out_closed || stream->rst_sent)
    {
        return;
    }
    hint = interim_frame(h2c->connection);
    if (hint == NULL || hint->bytes) {
        return;
    }
    hint->bytes = ngx_alloc(NGX_HTTP_V2_FRAME_HEADER_SIZE + bytes,
                            r->connection->log);
    if (hint->bytes == NULL) {
        return;
    }
    start = hint->bytes + NGX_HTTP_V2_FRAME_HEADER_SIZE;
    end = start;
    if (h2c->table_update) {
        /* the size update that is due after the client's SETTINGS (RFC 7541 4.2): 0, like nginx */
        *end++ = 1 << 5;
        h2c->table_update = 0;
    }
    *end++ = 8;   /* index of :status in the static table (RFC 7541 A) */
    ngx_sprintf(status, "%03ui", (ngx_uint_t) ctx->head.scan.status);
    end = put_hpack_text(end, (char *) status, 3, 0);
    while (head_next(head, ctx->head.scan.len, &at, &field)) {
        if (passes(ctx, &field)) {
            *end++ = 0;
            end = put_hpack_text(end, field.name, field.name_len, 1);
            end = put_hpack_text(end, field.value, field.value_len, 0);
        }
    }
    queue_interim(stream, hint, end - start);
    r->connection->sent += NGX_HTTP_V2_FRAME_HEADER_SIZE + (end - start);
    r->header_size += NGX_HTTP_V2_FRAME_HEADER_SIZE + (end - start);
    (void) ngx_http_v2_send_output_queue(h2c);
}

#endif


/* Passes an interim response on if the client's protocol has them and no output is waiting: they
 * are hints, worth nothing when late. */
static void
take_interim(ngx_http_request_t *r, edge_ctx_t *ctx, const char *head)
{
    if (r != r->main || r->header_sent || r->connection->error) {
        return;
    }
#if (NGX_HTTP_V2)
    if (r->stream) {
        pass_interim_v2(r, ctx, head);
        return;
    }
#endif
    if (r->http_version == NGX_HTTP_VERSION_11 && r->out == NULL
        && !r->connection->buffered)
    {
        pass_interim(r, ctx, head);
    }
}


/* ---- the head ---- */

/* Makes room for more of the head when the buffer is full; a buffer that becomes too small is freed
 * at once. */
static ngx_int_t
make_room(ngx_http_request_t *r, ngx_buf_t *b)
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
    larger = ngx_palloc(r->pool, size);
    if (larger == NULL) {
        return NGX_ERROR;
    }
    ngx_memcpy(larger, b->pos, used);
    (void) ngx_pfree(r->pool, b->start);
    b->start = larger;
    b->pos = larger;
    b->last = larger + used;
    b->end = larger + size;
    return NGX_AGAIN;
}


/* Does a body follow, or may one, though the response has none by definition? nginx would drop the
 * bytes in the buffer and take later ones for the next response, so the connection must not be used
 * again. Only the header of a 204 announces a body: with HEAD and 304 Content-Length describes the
 * response to a GET. */
static ngx_uint_t
has_bytes_behind(ngx_http_request_t *r, const head_t *head)
{
    ngx_http_upstream_t  *u = r->upstream;

    if (head->status == NGX_HTTP_NO_CONTENT
        && (head->chunked || head->length > 0))
    {
        return 1;
    }
    return u->buffer.pos != u->buffer.last
           && (r->method == NGX_HTTP_HEAD
               || head->status == NGX_HTTP_NO_CONTENT
               || head->status == NGX_HTTP_NOT_MODIFIED);
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

    text = ngx_pnalloc(r->pool, 2 * scan->len);
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
    rc = give_fields(r, &ctx->head.scan);
    if (rc != NGX_OK) {
        return rc;
    }
    u->process_header = ctx->head.parse;
    rc = u->process_header(r);
    if (rc == NGX_AGAIN) {
        return refuse(r, "a head that nginx reads otherwise");
    }
    if (rc == NGX_OK && u->upgrade && edge_streams_upgrade(r, ctx)) {
        return NGX_HTTP_UPSTREAM_INVALID_HEADER;   /* the page says why: ctx->error */
    }
    if (rc == NGX_OK && (has_bytes_behind(r, &ctx->head.scan)
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
    head = &ctx->head;
    edge_failover_stands(r, ctx);
    for ( ;; ) {
        switch (head_scan(&head->scan, (char *) b->pos, b->last - b->pos, &why))
        {
        case HEAD_BAD:
            return refuse(r, why);
        case HEAD_MORE:
            return make_room(r, b);
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
        take_interim(r, ctx, (char *) b->pos);
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
    ctx->head.parse = u->process_header;
    ctx->head.reinit = u->reinit_request;
    u->process_header = process_head;
    u->reinit_request = reinit_request;
}
