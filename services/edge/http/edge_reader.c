/* How much of a response's body is read from the upstream at once.
 *
 * Responses are not buffered: what was read is sent to the client in the same turn of the event
 * loop. nginx reads the body into the small buffer that the head came in, one read and one write
 * after the other, and a large body costs twice as much as with reads of 64 KiB. So the worker
 * lends a large buffer to a request whose small one was filled by one read. It takes the large one
 * back when the request ends, or when the small one would have done for a second. A client that
 * does not read keeps what it was lent and no more: while the buffer is full the upstream is not
 * read. Nor is it where many reads have brought few bytes each, which wait: nginx has a buffer for
 * each, and looks at all of them whenever it sends.
 *
 * So it is with each side of a WebSocket. There nginx has a handler for each event of either side,
 * and no filter: before a handler runs, it is seen what the last one carried. */
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_pieces.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/tls/edge_recv.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    LARGE = 64 << 10,
    PART = 4,          /* of postern_request_memory, beside it: so much may be lent */
    PIECES_MAX = 128,  /* that wait for a client; one read brings 65 at most */
    KEPT_MAX = 64,     /* buffers kept for the next request instead of freed */
    SWEEP_MS = 1000
};

static portions_t        shares;   /* of what is lent */
static ngx_queue_t       lent;     /* of loans */
static ngx_queue_t       kept;     /* the links stand in the buffers themselves */
static ngx_uint_t        kept_count;
static ngx_event_t       sweep_timer;
static ngx_connection_t  timer_dummy;


static u_char *
take_large(ngx_log_t *log)
{
    ngx_queue_t  *q;

    if (ngx_queue_empty(&kept)) {
        return ngx_alloc(LARGE, log);
    }
    q = ngx_queue_head(&kept);
    ngx_queue_remove(q);
    kept_count--;
    return (u_char *) q;
}


static void
keep_large(u_char *large)
{
    ngx_queue_t  *q = (ngx_queue_t *) large;

    if (kept_count == KEPT_MAX) {
        ngx_free(large);
        return;
    }
    ngx_queue_insert_head(&kept, q);   /* what was used last is still in the cache */
    kept_count++;
}


/* Sets the buffer of the next reads, which is empty. */
static void
read_into(ngx_buf_t *b, u_char *start, u_char *end)
{
    b->start = start;
    b->pos = start;
    b->last = start;
    b->end = end;
}


static void
note_lent(void)
{
    edge_vitals(ngx_worker)->lent_bytes = shares.taken;
}


/* There is nothing in the buffer. */
static void
lend(ngx_http_request_t *r, edge_loan_t *loan, ngx_buf_t *b)
{
    u_char  *large;

    /* slow readers keep what they were lent: so each client, and each account, has its portion */
    if (!edge_share_lend(&shares, edge_conf()->request_memory / PART, edge_ctx(r),
                         &loan->portion, LARGE))
    {
        return;
    }
    large = take_large(r->connection->log);
    if (large == NULL) {
        portion_give(&shares, &loan->portion);
        return;
    }
    loan->buf = b;
    loan->large = large;
    loan->small = b->start;
    loan->small_end = b->end;
    loan->request = r;
    loan->needed = 1;
    read_into(b, large, large + LARGE);
    ngx_queue_insert_tail(&lent, &loan->link);
    note_lent();
    if (!sweep_timer.timer_set) {
        ngx_add_timer(&sweep_timer, SWEEP_MS);
    }
}


static void
take_back(edge_loan_t *loan)
{
    ngx_queue_remove(&loan->link);
    portion_give(&shares, &loan->portion);
    note_lent();
    keep_large(loan->large);
    loan->large = NULL;
}


/* Is more of the body to come than fits into the small buffer, or is its length unknown? Of gRPC
 * nginx says only that there is more. */
static ngx_uint_t
much_is_left(const edge_ctx_t *ctx, const ngx_http_upstream_t *u)
{
    if (u->length == 0) {
        return 0;
    }
    return ctx->grpc || u->headers_in.chunked || u->length < 0
           || u->length > u->buffer.end - u->buffer.start;
}


/* Of the buffer that is read into, which stop_at_many may have made shorter. */
static u_char *
buffer_end(const edge_reader_t *reader)
{
    return reader->loan.large ? reader->loan.large + LARGE : reader->end;
}


/* Where too many pieces wait the buffer is full: so nginx reads no more, until all were sent. Then
 * it fills the buffer anew, as long as that is now, and the next on_read makes it whole. */
static ngx_uint_t
stop_at_many(edge_reader_t *reader, ngx_http_upstream_t *u)
{
    reader->pieces += edge_pieces_count(u);
    if (reader->pieces <= PIECES_MAX) {
        return 0;
    }
    u->buffer.end = u->buffer.last;
    return 1;
}


static ngx_int_t
filter_read(ngx_http_request_t *r, edge_reader_t *reader, ssize_t bytes)
{
    if (reader->in_chunks) {
        return edge_pieces_chunked(r, &reader->chunked, bytes);
    }
    return reader->filter(r, bytes);
}


/* Wraps nginx's filter, which appends what was read to the response without copying it. So the
 * buffer of later reads can be exchanged here: what is in the one before is sent from there. */
static ngx_int_t
on_read(void *data, ssize_t bytes)
{
    ngx_int_t             rc;
    edge_ctx_t           *ctx;
    ngx_uint_t            filled;
    edge_reader_t        *reader;
    ngx_http_request_t   *r = data;
    ngx_http_upstream_t  *u = r->upstream;

    ctx = edge_ctx(r);
    if (ctx == NULL) {
        return NGX_ERROR;
    }
    reader = &ctx->reader;
    if (u->busy_bufs == NULL && u->out_bufs == NULL) {
        reader->pieces = 0;
        u->buffer.end = buffer_end(reader);
    }
    filled = u->buffer.last + bytes == u->buffer.end;
    rc = filter_read(r, reader, bytes);
    if (rc == NGX_ERROR || stop_at_many(reader, u)) {
        return rc;
    }
    if (reader->loan.large) {
        reader->loan.needed |= bytes > reader->loan.small_end
                                       - reader->loan.small;
    } else if (filled && u->buffer.end - u->buffer.start < LARGE
               && much_is_left(ctx, u))
    {
        lend(r, &reader->loan, &u->buffer);
    }
    return rc;
}


/* nginx's init chooses the filter by the body's framing (length or chunks), and sets u->length to 0
 * where an answer has no body, whatever its head says. */
static ngx_int_t
init_filter(void *data)
{
    ngx_int_t            rc;
    edge_ctx_t          *ctx;
    edge_reader_t       *reader;
    ngx_http_request_t  *r = data;

    ctx = edge_ctx(r);
    if (ctx == NULL) {
        return NGX_ERROR;
    }
    reader = &ctx->reader;
    rc = reader->init(data);
    reader->filter = r->upstream->input_filter;
    reader->end = r->upstream->buffer.end;
    reader->in_chunks = !ctx->grpc && r->upstream->headers_in.chunked && r->upstream->length;
    ngx_memzero(&reader->chunked, sizeof(reader->chunked));
    r->upstream->input_filter = on_read;
    return rc;
}


void
edge_reader_watch(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->reader.init = r->upstream->input_filter_init;
    r->upstream->input_filter_init = init_filter;
}


void
edge_reader_stands(ngx_connection_t *upstream)
{
    edge_recv_from_upstream(upstream);
}


/* ---- after a 101 ---- */

/* One way through a WebSocket: the bytes that it had carried when it was looked at last. */
typedef struct {
    edge_loan_t  *loan;
    off_t         carried;
} way_t;

typedef struct edge_upgraded {
    way_t        down, up;
    edge_loan_t  client_loan;   /* of what comes from the client */
    /* nginx's */
    ngx_http_upstream_handler_pt  read_upstream, write_upstream;
    ngx_http_event_handler_pt     read_client, write_client;
} edge_upgraded_t;


static ngx_uint_t
is_empty(const ngx_buf_t *b)
{
    return b->start && b->pos == b->last;
}


/* Before nginx reads into b, which is the request's own memory or lent. */
static void
look_at_way(ngx_http_request_t *r, way_t *way, ngx_buf_t *b, off_t carried)
{
    off_t         more = carried - way->carried;
    edge_loan_t  *loan = way->loan;

    way->carried = carried;
    if (loan->large) {
        loan->needed |= more > loan->small_end - loan->small;
    } else if (is_empty(b) && more >= b->end - b->start) {
        lend(r, loan, b);
    }
}


static void
look_down(ngx_http_request_t *r, ngx_http_upstream_t *u, edge_upgraded_t *self)
{
    look_at_way(r, &self->down, &u->buffer, u->state->bytes_received);
}


static void
look_up(ngx_http_request_t *r, ngx_http_upstream_t *u, edge_upgraded_t *self)
{
    look_at_way(r, &self->up, &u->from_client, u->peer.connection->sent);
}


/* Each of these may end the request. */
static void
on_upstream_readable(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    edge_upgraded_t  *self = edge_ctx(r)->reader.upgraded;

    look_down(r, u, self);
    self->read_upstream(r, u);
}


static void
on_upstream_writable(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    edge_upgraded_t  *self = edge_ctx(r)->reader.upgraded;

    look_up(r, u, self);
    self->write_upstream(r, u);
}


static void
on_client_readable(ngx_http_request_t *r)
{
    edge_upgraded_t  *self = edge_ctx(r)->reader.upgraded;

    look_up(r, r->upstream, self);
    self->read_client(r);
}


static void
on_client_writable(ngx_http_request_t *r)
{
    edge_upgraded_t  *self = edge_ctx(r)->reader.upgraded;

    look_down(r, r->upstream, self);
    self->write_client(r);
}


/* What came from the client behind the head of its handshake stands in the buffer of that head, and
 * nginx would read what comes next into that buffer from its start: over the head, which events,
 * the log and the judges of streams go on to look at. So it moves to a buffer of its own. */
static ngx_int_t
move_first_words(ngx_http_request_t *r, ngx_http_upstream_t *u)
{
    ngx_buf_t  *b = &u->from_client, *head = r->header_in;
    size_t      left = head->last - head->pos;
    size_t      size = ngx_max(u->conf->buffer_size, left);

    if (left == 0) {
        return NGX_OK;
    }
    b->start = ngx_palloc(r->pool, size);
    if (b->start == NULL) {
        return NGX_ERROR;
    }
    b->pos = b->start;
    b->last = ngx_cpymem(b->start, head->pos, left);
    b->end = b->start + size;
    b->temporary = 1;
    b->tag = u->output.tag;
    head->pos = head->last;
    /* nginx sends it where it may write, and has no event for that: it could all along */
    ngx_post_event(u->peer.connection->write, &ngx_posted_events);
    return NGX_OK;
}


/* A tunnel (modules/edge_converter.c) has handlers and buffers of its own. Without memory for it, a
 * WebSocket goes on with small reads. */
ngx_int_t
edge_reader_watch_upgraded(ngx_http_request_t *r)
{
    edge_ctx_t           *ctx = edge_ctx(r);
    edge_upgraded_t      *self;
    ngx_http_upstream_t  *u = r->upstream;

    if (ctx == NULL || ctx->tunnel || ctx->reader.upgraded
        || r->headers_out.status != NGX_HTTP_SWITCHING_PROTOCOLS
        || u->peer.connection == NULL)
    {
        return NGX_OK;
    }
    if (move_first_words(r, u)) {
        return NGX_ERROR;
    }
    self = ngx_pcalloc(r->pool, sizeof(edge_upgraded_t));
    if (self == NULL) {
        return NGX_OK;
    }
    self->down.loan = &ctx->reader.loan;
    self->down.carried = u->state->bytes_received;
    self->up.loan = &self->client_loan;
    self->up.carried = u->peer.connection->sent;
    self->read_upstream = u->read_event_handler;
    self->write_upstream = u->write_event_handler;
    self->read_client = r->read_event_handler;
    self->write_client = r->write_event_handler;
    ctx->reader.upgraded = self;
    u->read_event_handler = on_upstream_readable;
    u->write_event_handler = on_upstream_writable;
    r->read_event_handler = on_client_readable;
    r->write_event_handler = on_client_writable;
    return NGX_OK;
}


#if (NGX_HTTP_V2)

/* What nginx has begun to send of an answer is not copied. */
static ngx_uint_t
is_in(const ngx_http_v2_out_frame_t *frame, const edge_loan_t *loan)
{
    ngx_chain_t  *cl;

    for (cl = frame->first; cl; cl = cl == frame->last ? NULL : cl->next) {
        if (cl->buf->pos >= loan->large && cl->buf->pos < loan->large + LARGE) {
            return 1;
        }
    }
    return 0;
}


static ngx_uint_t
is_on_its_way(ngx_http_v2_stream_t *stream, const edge_loan_t *loan)
{
    ngx_http_v2_out_frame_t  *frame;

    for (frame = stream->connection->last_out; frame; frame = frame->next) {
        if (frame->stream == stream && is_in(frame, loan)) {
            return 1;
        }
    }
    return 0;
}

#endif


void
edge_reader_stop(edge_ctx_t *ctx)
{
#if (NGX_HTTP_V2)
    edge_loan_t           *loan = &ctx->reader.loan;
    ngx_http_v2_stream_t  *stream = ctx->pace.request->stream;

    if (stream && loan->large && !is_on_its_way(stream, loan)) {
        read_into(loan->buf, loan->small, loan->small_end);
        take_back(loan);
    }
#else
    (void) ctx;
#endif
}


void
edge_reader_end(edge_ctx_t *ctx)
{
    edge_upgraded_t  *upgraded = ctx->reader.upgraded;

    if (ctx->reader.loan.large) {
        take_back(&ctx->reader.loan);
    }
    if (upgraded && upgraded->client_loan.large) {
        take_back(&upgraded->client_loan);
    }
}


/* ---- once a second ---- */

/* Was all that was read sent, and may the upstream send more? Else a part of the response may stand
 * in the buffer. */
static ngx_uint_t
is_idle(const ngx_http_upstream_t *u, const ngx_buf_t *b)
{
    return u->peer.connection && u->out_bufs == NULL && u->busy_bufs == NULL
           && (!u->upgrade || is_empty(b));
}


static void
sweep_one(edge_loan_t *loan)
{
    if (!loan->needed && is_idle(loan->request->upstream, loan->buf)) {
        read_into(loan->buf, loan->small, loan->small_end);
        take_back(loan);
        return;
    }
    loan->needed = 0;
}


static void
on_sweep(ngx_event_t *ev)
{
    ngx_queue_t  *q, *next;

    for (q = ngx_queue_head(&lent); q != ngx_queue_sentinel(&lent); q = next) {
        next = ngx_queue_next(q);
        sweep_one(ngx_queue_data(q, edge_loan_t, link));
    }
    if (!ngx_queue_empty(&lent)) {
        ngx_add_timer(ev, SWEEP_MS);
    }
}


void
edge_reader_start(ngx_cycle_t *cycle)
{
    ngx_queue_init(&lent);
    ngx_queue_init(&kept);
    timer_dummy.fd = -1;
    sweep_timer.handler = on_sweep;
    sweep_timer.log = cycle->log;
    sweep_timer.data = &timer_dummy;
    sweep_timer.cancelable = 1;
}
