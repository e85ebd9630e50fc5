/* Encodes a body as it comes, one read's worth (TURN_BYTES) in a turn of the event loop, in which
 * all bodies together have PASS_US, by accounts and clients in turn (encoder_turns.h), into at most
 * OUT_MAX buffers. While the client does not take those, the read stays where it is, and the
 * upstream is not read (http/edge_reader.c). What is to be flushed is flushed out of the encoder at
 * the beginning of the next turn, before the worker waits for anything: reads of one turn, and the
 * end of a body that came with its last read, cost no flush of their own. */
#include "services/edge/modules/edge_compressor.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    ENCODERS_BYTES = 320 << 20, /* of one worker, by what they and what they made may take */
    TURN_BYTES = 64 << 10,
    PASS_US = 10 * 1000,        /* then others have their turn: a body's may take milliseconds */
    OUT_SIZE = 16 << 10,
    OUT_MAX = 4,
    ROOM_MIN = 16               /* what an encoder needs at least */
};

static portions_t       encoders;   /* what those of this worker may take */
static encoder_turns_t  waiting;    /* for their next turn */
static ngx_event_t      pass;       /* gives them their turns */
static ngx_uint_t       passes;


static void on_pass(ngx_event_t *ev);


static void
note_taken(void)
{
    edge_vitals(ngx_worker)->encoder_bytes = encoders.taken;
}


void
compressor_end(compressor_t *self)
{
    if (self->encoder) {
        encoder_destroy(&self->encoder);
    }
    portion_give(&encoders, &self->portion);
    note_taken();
    encoder_turns_leave(&waiting, &self->turn);
}


/* The body is encoded: what was made of it stays until the request ends, for a client may take as
 * long as it likes for the last of it. */
static void
end_encoder(compressor_t *self)
{
    encoder_destroy(&self->encoder);
    portion_keep(&encoders, &self->portion, self->buffers * self->size);
    note_taken();
}


void
compressor_stop(compressor_t *self)
{
    if (self->encoder) {
        end_encoder(self);
    }
    encoder_turns_leave(&waiting, &self->turn);
}


/* Moves what the client has taken to the free buffers. */
static void
reclaim(compressor_t *self)
{
    ngx_chain_update_chains(self->request->pool, &self->free, &self->busy,
                            &self->out,
                            (ngx_buf_tag_t) &ngx_http_postern_module);
}


static ngx_uint_t
has_room(const compressor_t *self)
{
    return self->filling || self->free || self->buffers < OUT_MAX;
}


static void
append_made(compressor_t *self, ngx_chain_t *cl)
{
    ngx_chain_t  **end;

    for (end = &self->out; *end; end = &(*end)->next) { /* void */ }
    cl->next = NULL;
    *end = cl;
}


static void
hand_over(compressor_t *self)
{
    if (self->filling && ngx_buf_size(self->filling->buf)) {
        append_made(self, self->filling);
        self->filling = NULL;
    }
}


/* NGX_DECLINED: all buffers are with the client. */
static ngx_int_t
make_room(compressor_t *self)
{
    ngx_buf_t    *b;
    ngx_pool_t   *pool = self->request->pool;
    ngx_chain_t  *cl;

    if (self->filling
        && self->filling->buf->end - self->filling->buf->last >= ROOM_MIN)
    {
        return NGX_OK;
    }
    hand_over(self);
    if (self->free) {
        self->filling = self->free;
        self->free = self->free->next;
        b = self->filling->buf;
        b->flush = 0;
        b->last_buf = 0;
        b->last_in_chain = 0;
        return NGX_OK;
    }
    if (self->buffers == OUT_MAX) {
        return NGX_DECLINED;
    }
    cl = ngx_alloc_chain_link(pool);
    b = ngx_create_temp_buf(pool, self->size);
    if (cl == NULL || b == NULL) {
        return NGX_ERROR;
    }
    b->tag = (ngx_buf_tag_t) &ngx_http_postern_module;
    cl->buf = b;
    cl->next = NULL;
    self->filling = cl;
    self->buffers++;
    return NGX_OK;
}


/* The end of a flush or of the body, on the last buffer of what was made, or on a mark of its
 * own. */
static ngx_int_t
add_mark(compressor_t *self, ngx_buf_t *mark)
{
    ngx_chain_t  *cl;

    hand_over(self);
    for (cl = self->out; cl && cl->next; cl = cl->next) { /* void */ }
    if (cl == NULL) {
        cl = ngx_alloc_chain_link(self->request->pool);
        if (cl == NULL) {
            return NGX_ERROR;
        }
        cl->buf = mark;
        append_made(self, cl);
        ngx_memzero(mark, sizeof(*mark));
    }
    cl->buf->flush |= mark == &self->flush_mark;
    cl->buf->last_buf |= mark == &self->last_mark;
    cl->buf->last_in_chain |= mark == &self->last_mark;
    return NGX_OK;
}


/* Drops what is taken, and notes what the upstream's side marked. */
static void
drop_taken(compressor_t *self)
{
    ngx_chain_t  *cl;

    while (self->in && (ngx_buf_size(self->in->buf) == 0 || self->last)) {
        cl = self->in;
        self->in = cl->next;
        self->to_flush |= cl->buf->flush;
        self->last |= cl->buf->last_buf;
        ngx_free_chain(self->request->pool, cl);
    }
}


static encode_t
next_operation(const compressor_t *self)
{
    return self->in ? ENCODE_MORE : self->last ? ENCODE_END : ENCODE_FLUSH;
}


static ngx_uint_t
has_work(const compressor_t *self)
{
    return self->encoder && (self->in || self->last || self->flushing);
}


static ngx_int_t
complete(compressor_t *self, encode_t operation)
{
    if (operation == ENCODE_MORE) {
        return NGX_OK;
    }
    self->unflushed = 0;
    self->to_flush = 0;
    self->flushing = 0;
    if (operation == ENCODE_FLUSH) {
        return add_mark(self, &self->flush_mark);
    }
    end_encoder(self);
    return add_mark(self, &self->last_mark);
}


static ngx_int_t
encode_part(compressor_t *self, encode_t operation)
{
    encoded_t     rc;
    ngx_buf_t    *in = self->in ? self->in->buf : NULL, *out = self->filling->buf;
    size_t        in_len = in ? ngx_min((size_t) ngx_buf_size(in), self->left) : 0;
    encode_io_t   io = { in ? in->pos : NULL, in_len, out->last,
                         out->end - out->last };

    rc = encoder_write(self->encoder, operation, &io);
    if (rc == ENCODED_NOT) {
        ngx_log_error(NGX_LOG_ERR, self->request->connection->log, 0,
                      "postern: the encoder of %s failed: the response is cut",
                      coding_names[self->coding]);
        return NGX_ERROR;
    }
    self->made += io.out - out->last;
    out->last = io.out;
    if (in) {
        in_len -= io.in_len;
        in->pos += in_len;
        self->taken += in_len;
        self->left -= in_len;
        self->unflushed |= in_len > 0;
    }
    return rc == ENCODED_ALL ? complete(self, operation) : NGX_OK;
}


static ngx_int_t
encode(compressor_t *self)
{
    ngx_int_t  rc;

    for ( ;; ) {
        drop_taken(self);
        if (!has_work(self) || (self->in && self->left == 0)) {
            return NGX_OK;
        }
        rc = make_room(self);
        if (rc != NGX_OK) {
            return rc == NGX_DECLINED ? NGX_OK : NGX_ERROR;
        }
        rc = encode_part(self, next_operation(self));
        if (rc != NGX_OK) {
            return rc;
        }
    }
}


static void
join_line(compressor_t *self)
{
    if (self->turn.waits) {
        return;
    }
    if (pass.handler == NULL) {
        pass.handler = on_pass;
        pass.log = ngx_cycle->log;
    }
    self->planned = passes;
    encoder_turns_wait(&waiting, &self->turn, self->account, self->client);
    if (!pass.posted) {
        ngx_post_event(&pass, &ngx_posted_next_events);
    }
}


/* What remains is done in the next turn of the event loop. While something remains nginx keeps the
 * request. */
static void
plan_turn(compressor_t *self)
{
    ngx_uint_t         remains = has_work(self)
                                 || (self->encoder && self->unflushed && self->to_flush);
    ngx_connection_t  *c = self->request->connection;

    if (remains) {
        c->buffered |= NGX_HTTP_GZIP_BUFFERED;
    } else {
        c->buffered &= ~NGX_HTTP_GZIP_BUFFERED;
        self->to_flush = 0;
    }
    if (remains || (self->encoder && self->left < TURN_BYTES)) {
        join_line(self);
    } else {
        encoder_turns_leave(&waiting, &self->turn);
    }
}


/* The next turn has come. Goes on as if the client's socket could be written to, which may end the
 * request. Where all buffers are with the client its socket does so by itself. */
static void
take_turn(compressor_t *self)
{
    ngx_connection_t  *c = self->request->connection;

    self->left = TURN_BYTES;
    reclaim(self);
    if (self->unflushed && self->to_flush && !self->in && !self->last) {
        self->flushing = 1;
    }
    if (has_work(self) && has_room(self)) {
        c->write->handler(c->write);
    }
}


static compressor_t *
first_in_line(void)
{
    encoder_turn_t  *turn = encoder_turns_first(&waiting);

    return turn ? ngx_queue_data(turn, compressor_t, turn) : NULL;
}


/* The pass ends at a body that joined its line in it, which has its turn in the next one, behind
 * other requests' events. A turn may end its own request and others. */
static void
on_pass(ngx_event_t *ev)
{
    uint64_t       until = edge_clock_us() + PASS_US;
    compressor_t  *self;

    passes++;
    while (edge_clock_us() < until) {
        self = first_in_line();
        if (self == NULL || self->planned == passes) {
            break;
        }
        encoder_turns_next(&waiting);
        take_turn(self);
    }
    if (encoder_turns_first(&waiting)) {
        ngx_post_event(ev, &ngx_posted_next_events);
    }
}


/* NGX_OK | NGX_BUSY | NGX_DECLINED, as compressor_begin. */
static ngx_int_t
take_room(compressor_t *self, ngx_http_request_t *r, edge_ctx_t *ctx, size_t bytes)
{
    const edge_conf_t  *conf = edge_conf();
    portion_account_t   to = edge_share_same(&ctx->portion);

    to.account = edge_share_account_of(ctx);
    self->account = to.account;
    self->client = to.theirs ? to.theirs : (uint32_t) r->connection->number;
    if (bytes > ENCODERS_BYTES - encoders.taken) {
        return NGX_DECLINED;
    }
    if (portion_take(&encoders, &self->portion, ENCODERS_BYTES, conf->client_portion,
                     ctx->portion.client, bytes)
        && portion_charge_account(&encoders, &self->portion, ENCODERS_BYTES, &to))
    {
        return NGX_OK;
    }
    portion_give(&encoders, &self->portion);
    return NGX_BUSY;
}


ngx_int_t
compressor_begin(compressor_t *self, ngx_http_request_t *r, edge_ctx_t *ctx,
    coding_t coding)
{
    ngx_int_t  rc;

    off_t  length = r->headers_out.content_length_n;

    ngx_memzero(self, sizeof(*self));
    self->coding = coding;
    self->size = length < 0 ? OUT_SIZE : ngx_min(OUT_SIZE, length + 2 * ROOM_MIN);
    rc = take_room(self, r, ctx, encoder_memory_max(coding) + OUT_MAX * self->size);
    note_taken();
    if (rc != NGX_OK) {
        return rc;
    }
    self->encoder = encoder_new(coding, length);
    if (self->encoder == NULL) {
        portion_give(&encoders, &self->portion);
        note_taken();
        return NGX_DECLINED;
    }
    self->request = r;
    self->left = TURN_BYTES;
    self->begun = 1;
    r->main_filter_need_in_memory = 1;
    return NGX_OK;
}


ngx_int_t
compressor_encode(compressor_t *self, ngx_chain_t **body)
{
    if (self->encoder == NULL) {
        return NGX_OK;   /* not encoded, or all of it was */
    }
    if (*body && ngx_chain_add_copy(self->request->pool, &self->in, *body) != NGX_OK) {
        return NGX_ERROR;
    }
    reclaim(self);
    if (encode(self) != NGX_OK) {
        return NGX_ERROR;
    }
    if (self->to_flush && self->taken == 0 && self->encoder
        && add_mark(self, &self->flush_mark) != NGX_OK)   /* of the head: it goes on at once */
    {
        return NGX_ERROR;
    }
    plan_turn(self);
    *body = self->out;
    return NGX_OK;
}
