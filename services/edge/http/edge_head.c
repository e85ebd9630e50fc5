/* What an upstream answers, from its first byte to the empty line: the edge waits until the head is whole, judges it (head.c)
 * and only then gives it to nginx's proxy. Heads of 1xx before it go to the client, or nowhere; they are never the answer.
 * Fields are given as the judge read them: nginx would go through them once more, byte by byte.
 *
 * nginx reads a head into one buffer of proxy_buffer_size. That stays small; a head that does not fit gets a larger one. */
#include "services/edge/http/edge_head.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/modules/module_response_headers.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/table/table.h"

/* A proxy may be told to wait for long, but not be kept busy: an upstream that sends these without end keeps a worker in one loop. */
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
           && !edge_response_removes(ctx->route, field->name, field->name_len);
}


/* What such a head takes as text or as HPACK, at most. 0: not to be passed on. 100 is between us and the upstream: nginx has
 * answered a client's expectation itself. Fields that only this connection has are not looked for in lists of names: a head with
 * such a list goes nowhere. */
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


/* As bytes behind whatever was sent: what the socket does not take at once goes before the answer. */
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
    (void) ngx_http_write_filter(r, &out);   /* an error is the connection's: the answer meets it */
}


#if (NGX_HTTP_V2)

/* RFC 7541 5.1 with a prefix of 7 bits, and 5.2 without Huffman. */
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


/* The one hint that a connection may have on its way. It is the connection's, as a PING is, and not the stream's: what nginx counts
 * of a stream's frames, and from when, differs between its versions, and a stream that is thought drained is freed under them. */
typedef struct {
    u_char                  *bytes;   /* NULL: none is on its way */
    ngx_buf_t                buf;
    ngx_chain_t              link;
    ngx_http_v2_out_frame_t  frame;   /* nginx looks at it once more after its handler */
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


/* The frame has been written, or a part of it. Its stream may be gone. */
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


/* With the frame's head before its bytes. Nothing else is queued, so nothing goes before it; and nothing passes a frame that is of no
 * stream, so the answer comes behind it. */
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


/* A HEADERS frame without END_STREAM (RFC 9113 8.1). Literals without indexing leave the encoder's table as it is. */
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
        /* owed before the first block since the client's settings (RFC 7541 4.2): 0, as nginx says */
        *end++ = 1 << 5;
        h2c->table_update = 0;
    }
    *end++ = 8;   /* the name in the static table: :status */
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


/* Only where the client's protocol has them and nothing waits to be written: they are hints, and late they are worth nothing. */
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

/* For more of the head, when the buffer is full. The one before goes at once. */
static ngx_int_t
make_room(ngx_http_request_t *r, ngx_buf_t *b)
{
    size_t   used = b->last - b->pos, size = b->end - b->start;
    u_char  *larger;

    if (b->last < b->end) {
        return NGX_AGAIN;
    }
    if (b->pos > b->start) {   /* 1xx stood there */
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


/* Behind an answer that has no body there is one, or will be: of HEAD and 304 what is said of a body
 * is about another answer's. nginx would drop the bytes that are here, and take those that come for the
 * next answer. */
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


/* One of them, as nginx keeps what it reads itself: both texts end with NUL, and whoever handles the name is called. */
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


/* From a copy: the buffer is for the body, too. What is left for nginx to read is the status line, before the empty one. */
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


/* It is whole, and judged. */
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
    if (rc == NGX_OK && has_bytes_behind(r, &ctx->head.scan)) {
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


/* On another connection, because a kept one was closed meanwhile. */
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
