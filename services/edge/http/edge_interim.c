/* Interim responses (1xx) of upstreams on their way to the client: as text before the final
 * response with HTTP/1.1, as a frame of headers with HTTP/2. */
#include "services/edge/http/edge_interim.h"
#include "services/edge/http/edge_cookies.h"
#include "services/edge/modules/module_response_headers.h"

enum {
    INTERIM_PASSED_MAX = 8192, /* bytes of one that is passed on */
    BUFFER_MIN = 1024,
    TEXT_OF_FIELD = 4,         /* bytes of a field beside its name and value: as text, */
    HPACK_OF_FIELD = 16        /* and as HPACK */
};


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
interim_bytes(const char *head, const head_t *scan, size_t of_field)
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
        bytes += of_field;
    }
    return bytes;
}


/* All of a request stand in one buffer: when there is one, what was in it has gone. It is charged
 * with the head of the answer (edge_answer_memory.c). One that was too small is given back, but for
 * those below 4 KB that are of the pool's own, together less than that. NULL: there is none. */
static ngx_buf_t *
buffer_of(ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes)
{
    size_t      size = BUFFER_MIN;
    ngx_buf_t  *b = ctx->head.interim;

    if (b == NULL || (size_t) (b->end - b->start) < bytes) {
        while (size < bytes) {
            size *= 2;
        }
        if (b) {
            (void) ngx_pfree(r->pool, b->start);
            ctx->head.interim = NULL;
        }
        b = ngx_create_temp_buf(r->pool, size);
        if (b == NULL) {
            return NULL;
        }
        ctx->head.interim = b;
    }
    b->pos = b->start;
    b->last = b->start;
    return b;
}


/* Written straight to the write filter: bytes that the socket does not take stay queued before the
 * final response. */
static void
pass_interim(ngx_http_request_t *r, edge_ctx_t *ctx, const char *head)
{
    size_t         at = 0, bytes = interim_bytes(head, &ctx->head.scan, TEXT_OF_FIELD);
    ngx_buf_t     *b;
    ngx_chain_t    out;
    head_field_t   field;

    b = bytes ? buffer_of(r, ctx, bytes) : NULL;
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

    bytes = interim_bytes(head, &ctx->head.scan, HPACK_OF_FIELD);
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


void
edge_interim_pass(ngx_http_request_t *r, edge_ctx_t *ctx, const char *head)
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
