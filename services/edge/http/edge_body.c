/* Sizes of bodies for the event: their bytes on the wire without framing (chunk sizes, HTTP/2 frame
 * headers). */
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_body_memory.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_gather.h"
#include "services/edge/http/edge_pace.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_share.h"
#include "services/edge/http/edge_slivers.h"
#include "services/edge/http/edge_suspend.h"
#include "services/edge/http/edge_upload.h"

static ngx_http_output_body_filter_pt   next_body_filter;
static ngx_http_request_body_filter_pt  next_request_body_filter;

extern ngx_module_t  ngx_http_chunked_filter_module;


static off_t
chain_bytes(const ngx_chain_t *in, ngx_uint_t *pieces)
{
    off_t  bytes = 0;

    for (*pieces = 0; in; in = in->next) {
        bytes += ngx_buf_size(in->buf);
        *pieces += 1;
    }
    return bytes;
}


#if (NGX_HTTP_V2)

/* Sends the head of a response whose body is still to come, behind the other events of this turn:
 * with what has come of the body by then. nginx leaves a HEADERS frame in the buffer of TLS until
 * DATA follows. */
static void
push_head(ngx_connection_t *c)
{
    if ((c->buffered & NGX_SSL_BUFFERED) && !c->error) {
        ngx_post_event(c->write, &ngx_posted_events);
    }
}


/* Sends what of the answer stands in the buffer of TLS, so that the RST_STREAM behind it has a
 * record of its own: curl 7.88 loses an answer that it reads together with that. */
static void
send_answer_first(ngx_connection_t *c)
{
    if ((c->buffered & NGX_SSL_BUFFERED) && c->write->ready
        && c->send_chain(c, NULL, 0) == NGX_CHAIN_ERROR)
    {
        c->error = 1;
    }
}


/* Sends the RST_STREAM that tells the client to stop its upload: nginx leaves it in the
 * connection's queue until something else is sent. */
static void
push_reset(const edge_ctx_t *ctx)
{
    ngx_connection_t      *c;
    ngx_http_v2_stream_t  *stream = ctx->request ? ctx->request->stream : NULL;

    if (stream == NULL || stream->in_closed) {
        return;
    }
    c = stream->connection->connection;
    if (!c->error) {
        send_answer_first(c);
        ngx_post_event(c->write, &ngx_posted_events);
    }
}

#endif


/* Counts the body of chunked responses before the chunk filter adds its framing; for others the
 * connection's own count is exact. */
static ngx_int_t
count_and_pass(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t    rc;
    off_t        open = edge_slivers_window(r);
    ngx_uint_t   pieces;
    edge_ctx_t  *ctx = r == r->main ? edge_ctx(r) : NULL;

    if (in && r->chunked && ctx) {
        ctx->body.given += chain_bytes(in, &pieces);
    }
    edge_gather_begin(r);
    rc = next_body_filter(r, in);
    edge_gather_end();
    edge_slivers_sent(r, open);
    if (ctx) {
        edge_pace_sent(r, ctx);
    }
    return rc;
}


static ngx_int_t
body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t  rc = count_and_pass(r, in);

    /* nginx has set its handlers, and flushes the head */
    if (r->upstream && r->upstream->upgrade && edge_reader_watch_upgraded(r)) {
        return NGX_ERROR;
    }
#if (NGX_HTTP_V2)
    if (rc != NGX_ERROR && r->stream && in && in->buf->flush
        && ngx_buf_size(in->buf) == 0)
    {
        push_head(r->stream->connection->connection);
    }
#endif
    return rc;
}


static void
throw_away(ngx_chain_t *in)
{
    for (/* void */; in; in = in->next) {
        in->buf->pos = in->buf->last;
    }
}


/* A body that is cut is not kept, neither what comes nor what came: nginx would write it to a file
 * as soon as its buffer is full. The end of a body is passed on. */
static ngx_chain_t *
let_go_of_body(ngx_http_request_t *r, ngx_chain_t *in)
{
    throw_away(in);
    throw_away(r->request_body->bufs);
    r->request_body->bufs = NULL;
    return r->request_body->rest ? NULL : in;
}


/* Chunk framing has been removed before this filter: all bytes here are body. It runs after each
 * read, also when that was framing alone and in is NULL. */
static ngx_int_t
request_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    off_t        bytes;
    ngx_uint_t   pieces;
    edge_ctx_t  *ctx = r == r->main ? edge_ctx(r) : NULL;

    if (ctx) {
        bytes = chain_bytes(in, &pieces);
        ctx->body.received += bytes;
        edge_upload_received(ctx);
        if (edge_suspend_body_is_cut(ctx, bytes, pieces)) {
            in = let_go_of_body(r, in);
        }
        if (ctx->body.memory && r->request_body->rest == 0) {
            edge_share_keep_body(ctx, edge_body_memory_whole(r));
        }
    }
    return next_request_body_filter(r, in);
}


void
edge_body_install(void)
{
    next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = body_filter;
    next_request_body_filter = ngx_http_top_request_body_filter;
    ngx_http_top_request_body_filter = request_body_filter;
}


/* A request runs when its header fields are read, and padding of the HEADERS frame may arrive
 * later. While the frame belongs to the stream, nginx counts the rest of it as body, computes a
 * negative window update and answers 500. Without a stream the padding is skipped, and nothing else
 * uses state->stream for it. */
#if (NGX_HTTP_V2)
static void
let_go_of_padding(ngx_http_v2_stream_t *stream)
{
    ngx_http_v2_state_t  *state = &stream->connection->state;

    if (state->stream == stream && state->length == 0) {
        state->stream = NULL;
    }
}
#endif


/* Runs while the HEADERS frame is read: no byte of the body has been counted yet. */
void
edge_body_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->body.left = r->headers_in.content_length_n;
#if (NGX_HTTP_V2)
    if (r->stream) {
        ctx->body.left = r->stream->recv_window;
        let_go_of_padding(r->stream);
    }
#endif
}


/* ---- a discarded body ---- */

/* nginx discards a chunked body without counting it: this parses the same bytes a second time. */
static void
count_chunks(ngx_http_request_t *r, edge_body_t *body, u_char *data, size_t len)
{
    size_t      part;
    ngx_int_t   rc;
    ngx_buf_t   b;

    ngx_memzero(&b, sizeof(ngx_buf_t));
    b.pos = data;
    b.last = data + len;
    while (!body->chunks_end) {
        rc = ngx_http_parse_chunked(r, &b, &body->chunked);
        if (rc != NGX_OK) {
            body->chunks_end = rc != NGX_AGAIN;   /* the last chunk, or an error */
            return;
        }
        part = (size_t) ngx_min((off_t) (b.last - b.pos), body->chunked.size);
        b.pos += part;
        body->chunked.size -= part;
        body->received += part;
    }
}


static ssize_t
recv_chunks(ngx_connection_t *c, u_char *buf, size_t size)
{
    ssize_t              n;
    edge_ctx_t          *ctx;
    ngx_http_request_t  *r = c->data;

    ctx = edge_ctx(r->main);
    if (ctx == NULL || ctx->body.recv == NULL) {
        return NGX_ERROR;
    }
    n = ctx->body.recv(c, buf, size);
    if (n > 0) {
        count_chunks(r, &ctx->body, buf, n);
    }
    return n;
}


#if (NGX_HTTP_V2)

static void
on_turn_end(ngx_event_t *ev)
{
    ngx_http_finalize_request(ev->data, NGX_DONE);
}


/* The request ends, or its client has reset the stream: then nginx has dropped all references, and
 * frames of the answer that wait for the socket keep the request, but nobody may give one back. */
static void
on_end_of_kept(void *data)
{
    ngx_event_t  *ev = data;

    if (ev->posted) {
        ngx_delete_posted_event(ev);
    }
}


/* nginx would close the stream as soon as the response is sent, before the DATA frames that arrived
 * together with the request are read. A reference keeps the stream for one turn of the event loop,
 * so that they are counted. */
static void
keep_for_turn(ngx_http_request_t *r, edge_body_t *body)
{
    ngx_event_t         *ev = ngx_pcalloc(r->pool, sizeof(ngx_event_t));
    ngx_http_cleanup_t  *cln = ngx_http_cleanup_add(r, 0);

    if (ev == NULL || cln == NULL) {
        return;
    }
    cln->handler = on_end_of_kept;
    cln->data = ev;
    ev->data = r;
    ev->handler = on_turn_end;
    ev->log = r->connection->log;
    r->count++;
    body->turn = ev;
    ngx_post_event(ev, &ngx_posted_events);
}

#endif


/* After a malformed body the start of the next request is unknown: the connection ends with this
 * response, whichever that is. */
static ngx_int_t
discard(ngx_http_request_t *r)
{
    ngx_int_t  rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        r->keepalive = 0;
    }
    return rc;
}


/* Has nginx a buffer for the body, or something of it, until the request ends? */
static ngx_uint_t
has_buffer(const ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream && r->stream->preread) {
        return 1;
    }
#endif
    return r->request_body != NULL;
}


ngx_int_t
edge_body_discard(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_body_t  *body;

    if (ctx == NULL) {
        return discard(r);   /* status port: no event, nothing to count */
    }
    body = &ctx->body;
    if (!has_buffer(r)) {
        edge_share_keep_body(ctx, 0);
    }
#if (NGX_HTTP_V2)
    if (r->stream) {
        if (!r->stream->in_closed && r == r->main && r->request_body == NULL
            && body->turn == NULL)
        {
            keep_for_turn(r, body);
        }
        return discard(r);
    }
#endif
    if (r->headers_in.chunked && r == r->main && !r->discard_body
        && r->request_body == NULL && body->recv == NULL)
    {
        count_chunks(r, body, r->header_in->pos,
                     r->header_in->last - r->header_in->pos);
        body->connection = r->connection;
        body->recv = r->connection->recv;
        r->connection->recv = recv_chunks;
    }
    return discard(r);
}


void
edge_body_linger(ngx_http_request_t *r, time_t seconds)
{
    if (r->lingering_time == 0) {
        r->lingering_time = ngx_time() + seconds;
    }
}


/* nginx sends 100 Continue around the output filters, when the body is first read or discarded
 * (ngx_http_test_expect); the condition here repeats the one there. */
size_t
edge_body_continued(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_str_t  *expect;

    if (!r->expect_tested || ctx->refused || r->stream
        || r->headers_in.expect == NULL
        || r->http_version < NGX_HTTP_VERSION_11)
    {
        return 0;
    }
    expect = &r->headers_in.expect->value;
    return expect->len == sizeof("100-continue") - 1
           && ngx_strncasecmp(expect->data, (u_char *) "100-continue",
                              expect->len) == 0
           ? sizeof("HTTP/1.1 100 Continue" CRLF CRLF) - 1 : 0;
}


void
edge_body_end(edge_ctx_t *ctx)
{
#if (NGX_HTTP_V2)
    push_reset(ctx);
#endif
    if (ctx->body.recv) {
        ctx->body.connection->recv = ctx->body.recv;
        ctx->body.recv = NULL;
    }
}


/* Size of a discarded body. nginx keeps only what remains: of Content-Length, or of the stream's
 * receive window, which shrinks by a whole frame, padding included, when the frame begins. */
static off_t
thrown_away(ngx_http_request_t *r, edge_ctx_t *ctx)
{
#if (NGX_HTTP_V2)
    if (r->stream) {
        return ctx->body.left - (off_t) r->stream->recv_window;
    }
#endif
    return r->headers_in.chunked
           ? 0 : ctx->body.left - r->headers_in.content_length_n;
}


/* Bytes of an HTTP/2 body that were received and not passed to the body filter, which does not
 * happen any more after a reset of the stream. */
static off_t
waiting(ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream && r->request_body->buf) {
        return ngx_buf_size(r->request_body->buf);
    }
#endif
    return 0;
}


off_t
edge_body_received(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (r->request_body) {
        return ctx->body.received + waiting(r);
    }
    return ctx->body.received ? ctx->body.received
                              : ngx_max(0, thrown_away(r, ctx));
}


/* Bytes that the write filter still buffers do not count as sent. For HTTP/2, nginx adds the
 * headers of all frames to header_size, so the difference is the body alone. */
off_t
edge_body_sent(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    off_t         wire = r->connection->sent - (off_t) r->header_size;
    off_t         body = ctx->body.given;
    ngx_chain_t  *cl;

    if (!r->header_sent || wire <= 0) {
        return 0;
    }
    if (ctx->tunnelled) {
        return body;
    }
#if (NGX_HTTP_V2)
    if (r->stream) {
        return wire;
    }
#endif
    if (!r->chunked) {
        return wire;
    }
    for (cl = r->out; cl; cl = cl->next) {
        if (cl->buf->tag != (ngx_buf_tag_t) &ngx_http_chunked_filter_module) {
            body -= ngx_buf_size(cl->buf);
        }
    }
    return ngx_max(0, ngx_min(body, wire));
}
