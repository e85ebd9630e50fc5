/* The body of an answer in chunks, by the edge's own filter: in whatever reads its bytes come, and
 * whatever waits for the client meanwhile, the client gets what was sent, in few pieces, and none
 * of them changes on its way. nginx's parser of chunks is in no library: one of the same contract
 * stands in for it. */
#include "services/edge/http/edge_pieces.h"

#include <ctype.h>
#include <stdlib.h>

enum { SENT_MAX = 1 << 16, WAITING_MAX = 1 << 13, MOVED = 1 << 10 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* ---- what the filter asks nginx for ---- */

enum { FIRST, SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, LINE, LAST_LF };

static int digit_of(u_char c)
{
    return isdigit(c) ? c - '0' : isxdigit(c) ? (c | 0x20) - 'a' + 10 : -1;
}

/* The state behind this byte; -1: it may not stand there. */
static int state_behind(ngx_http_chunked_t *self, u_char c)
{
    int begun = self->size ? DATA : TRAILER;

    switch (self->state) {
    case FIRST:
    case SIZE:
        if (digit_of(c) >= 0) {
            self->size = self->size * 16 + digit_of(c);
            return self->size >> 40 ? -1 : SIZE;
        }
        if (self->state == FIRST)
            return -1;
        return c == '\n' ? begun : c == '\r' ? SIZE_LF : strchr("; \t", c) && c ? EXTENSION : -1;
    case EXTENSION:
        return c == '\n' ? begun : c == '\r' ? SIZE_LF : EXTENSION;
    case SIZE_LF:
        return c == '\n' ? begun : -1;
    case DATA_CR:
        return c == '\r' ? DATA_LF : c == '\n' ? FIRST : -1;
    case DATA_LF:
        return c == '\n' ? FIRST : -1;
    case TRAILER:
        return c == '\r' ? LAST_LF : c == '\n' ? NGX_DONE : LINE;
    case LINE:
        return c == '\n' ? TRAILER : LINE;
    default:
        return c == '\n' ? NGX_DONE : -1;
    }
}

ngx_int_t ngx_http_parse_chunked(ngx_http_request_t *r, ngx_buf_t *b, ngx_http_chunked_t *self)
{
    int state;

    (void)r;
    if (self->state == DATA && self->size == 0)
        self->state = DATA_CR;
    for (; b->pos < b->last; b->pos++) {
        if (self->state == DATA)
            return NGX_OK;
        state = state_behind(self, *b->pos);
        if (state == NGX_DONE) {
            b->pos++;
            return NGX_DONE;
        }
        if (state < 0)
            return NGX_ERROR;
        self->state = (ngx_uint_t)state;
    }
    return NGX_AGAIN;
}

ngx_chain_t *ngx_chain_get_free_buf(ngx_pool_t *p, ngx_chain_t **free)
{
    ngx_chain_t *link = *free;

    (void)p;
    if (link) {
        *free = link->next;
        link->next = NULL;
        return link;
    }
    link = calloc(1, sizeof(*link));
    link->buf = calloc(1, sizeof(*link->buf));
    return link;
}

void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err, const char *fmt, ...)
{
    (void)level;
    (void)log;
    (void)err;
    (void)fmt;
}

/* ---- an answer ---- */

typedef struct {
    u_char bytes[SENT_MAX];
    size_t count;
    ngx_int_t end; /* NGX_DONE, NGX_ERROR, or NGX_AGAIN: there is more to come */
    bool behind;   /* bytes came in the same read behind the last chunk */
} sent_t;

/* What the client has been given, and has not taken; at: where it stands in what was sent. */
typedef struct {
    const u_char *pos;
    size_t len, at;
} waiting_t;

typedef struct {
    ngx_http_request_t request;
    ngx_http_upstream_t upstream;
    ngx_connection_t connection;
    ngx_log_t log;
    ngx_http_chunked_t chunked;
    waiting_t waiting[WAITING_MAX];
    size_t waits;
    u_char *first; /* buffer, where another one has taken its place */
    sent_t *sent;
} answer_t;

static void begin(answer_t *self, size_t room, sent_t *sent)
{
    ngx_buf_t *b = &self->upstream.buffer;

    b->start = b->pos = b->last = malloc(room);
    b->end = b->start + room;
    self->upstream.length = -1;
    self->connection.log = &self->log;
    self->request.connection = &self->connection;
    self->request.upstream = &self->upstream;
    self->sent = sent;
    *sent = (sent_t){.end = NGX_AGAIN};
}

static void free_links(ngx_chain_t *link)
{
    for (ngx_chain_t *next; link; link = next) {
        next = link->next;
        free(link->buf);
        free(link);
    }
}

static void end(answer_t *self)
{
    free_links(self->upstream.out_bufs);
    free_links(self->upstream.free_bufs);
    free(self->upstream.buffer.start);
    free(self->first);
    free(self);
}

/* The client is given what was read: from now on that may not change. */
static void give(answer_t *self)
{
    ngx_http_upstream_t *u = &self->upstream;
    ngx_chain_t *link;
    size_t len;

    while ((link = u->out_bufs)) {
        len = (size_t)(link->buf->last - link->buf->pos);
        check(len > 0 && self->sent->count + len <= SENT_MAX && self->waits < WAITING_MAX);
        memcpy(self->sent->bytes + self->sent->count, link->buf->pos, len);
        self->waiting[self->waits++] = (waiting_t){link->buf->pos, len, self->sent->count};
        self->sent->count += len;
        u->out_bufs = link->next;
        link->next = u->free_bufs;
        u->free_bufs = link;
    }
}

/* The client takes all, and the buffer is empty. */
static void take(answer_t *self)
{
    ngx_buf_t *b = &self->upstream.buffer;

    for (size_t i = 0; i < self->waits; i++)
        check(memcmp(self->waiting[i].pos, self->sent->bytes + self->waiting[i].at,
                     self->waiting[i].len)
              == 0);
    self->waits = 0;
    b->pos = b->last = b->start;
}

static void read_some(answer_t *self, const uint8_t *data, size_t len, bool more)
{
    ngx_http_upstream_t *u = &self->upstream;
    size_t before = edge_pieces_count(u);
    ngx_int_t rc;

    memcpy(u->buffer.last, data, len);
    rc = edge_pieces_chunked(&self->request, &self->chunked, (ssize_t)len);
    check(edge_pieces_count(u) <= before + 1 + len / (MOVED + 1));
    self->sent->end = rc ? NGX_ERROR : u->length == 0 ? NGX_DONE : NGX_AGAIN;
    self->sent->behind = self->sent->end == NGX_DONE && u->buffer.pos != u->buffer.last;
    if (self->sent->end == NGX_DONE)
        check(u->keepalive == !self->sent->behind);
    else
        check(u->length == -1 && !u->keepalive);
    if (!more || self->sent->end != NGX_AGAIN) {
        give(self);
        take(self);
    }
}

/* What is read next goes into another buffer, whatever of the first one waits. */
static void exchange(answer_t *self, size_t room)
{
    ngx_buf_t *b = &self->upstream.buffer;

    if (self->first)
        return;
    self->first = b->start;
    b->start = b->pos = b->last = malloc(room);
    b->end = b->start + room;
}

/* Each control says how much is read at once (its low six bits), and what happens then. */
static void run(const uint8_t *controls, size_t count, const uint8_t *data, size_t size,
                sent_t *sent)
{
    enum { KEEPS = 1 << 6, WAITS = 2 << 6 };
    answer_t *self = calloc(1, sizeof(*self));
    size_t room = 1 + (size_t)controls[0] * 16, len;
    uint8_t how;

    begin(self, room, sent);
    for (size_t at = 0, i = 0; at < size && sent->end == NGX_AGAIN; at += len, i++) {
        how = controls[i % count];
        if (self->upstream.buffer.last == self->upstream.buffer.end) {
            give(self);
            take(self);
        }
        len = ngx_min(1 + ((size_t)how & 0x3f) * ((size_t)how & 0x3f), size - at);
        len = ngx_min(len, (size_t)(self->upstream.buffer.end - self->upstream.buffer.last));
        read_some(self, data + at, len, at + len < size);
        if ((how & KEEPS) == 0)
            give(self);
        if ((how & (KEEPS | WAITS)) == 0)
            take(self);
        if ((how & (KEEPS | WAITS)) == (KEEPS | WAITS))
            exchange(self, 2 * room);
    }
    end(self);
}

/* The same without the filter. */
static void decode(const uint8_t *data, size_t size, sent_t *sent)
{
    ngx_http_chunked_t chunked = {0};
    ngx_buf_t b = {.pos = (u_char *)data, .last = (u_char *)data + size};
    size_t len;

    *sent = (sent_t){0};
    while ((sent->end = ngx_http_parse_chunked(NULL, &b, &chunked)) == NGX_OK) {
        len = ngx_min((size_t)(b.last - b.pos), (size_t)chunked.size);
        memcpy(sent->bytes + sent->count, b.pos, len);
        sent->count += len;
        b.pos += len;
        chunked.size -= (off_t)len;
    }
    sent->behind = sent->end == NGX_DONE && b.pos != b.last;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static sent_t want, got;
    static const uint8_t whole[] = {0xff, 0x3f, 0x3f};
    size_t count = size ? 1 + data[0] % 16 : 0;

    if (size < 1 + count || size > SENT_MAX)
        return 0;
    decode(data + 1 + count, size - 1 - count, &want);
    run(whole, sizeof(whole), data + 1 + count, size - 1 - count, &got);
    check(got.end == want.end && got.count == want.count);
    check(memcmp(got.bytes, want.bytes, want.count) == 0);
    run(data + 1, count, data + 1 + count, size - 1 - count, &got);
    check(got.end == want.end && got.count == want.count);
    check(memcmp(got.bytes, want.bytes, want.count) == 0);
    return 0;
}
