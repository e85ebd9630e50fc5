/* Bytes of bodies for the event: those that went over the wire, without what frames them there (sizes of chunks, frames of HTTP/2). */
#include "services/edge/http/edge_body.h"
#include "services/edge/http/edge_ctx.h"
#include "services/edge/http/edge_suspend.h"

static ngx_http_output_body_filter_pt   next_body_filter;
static ngx_http_request_body_filter_pt  next_request_body_filter;

extern ngx_module_t  ngx_http_chunked_filter_module;


static off_t
chain_bytes(const ngx_chain_t *in)
{
    off_t  bytes = 0;

    for (/* void */; in; in = in->next) {
        bytes += ngx_buf_size(in->buf);
    }
    return bytes;
}


/* Only of an answer in chunks is more sent than its body. */
static ngx_int_t
body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    edge_ctx_t  *ctx;

    if (in && r->chunked && r == r->main) {
        ctx = edge_ctx(r);
        if (ctx) {
            ctx->body.given += chain_bytes(in);
        }
    }
    return next_body_filter(r, in);
}


static void
throw_away(ngx_chain_t *in)
{
    for (/* void */; in; in = in->next) {
        in->buf->pos = in->buf->last;
    }
}


/* What comes here is the body, whatever it came in. */
static ngx_int_t
request_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    edge_ctx_t  *ctx;

    if (in && r == r->main) {
        ctx = edge_ctx(r);
        if (ctx) {
            ctx->body.received += chain_bytes(in);
            if (edge_suspend_body_is_cut(ctx)) {
                throw_away(in);
            }
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


/* A request runs when its fields are read, and the padding behind them may come later. As long as the frame is the stream's, nginx
 * takes what is left of it for a part of the body, finds less room than the client was promised, and answers 500 ("negative
 * window update"). Nobody else asks whose the frame is: it is skipped. */
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


/* While the request's HEADERS are read. */
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


/* ---- one that is thrown away ---- */

/* nginx reads chunks that nobody wants, and keeps no count of them: they are read a second time
 * here, beside it. */
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
            body->chunks_end = rc != NGX_AGAIN;   /* the last chunk, or what is none */
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


/* nginx would close the stream with its answer, and never know of the frames that came with the
 * request and are not read yet: it is kept until they are. */
static void
keep_for_turn(ngx_http_request_t *r, edge_body_t *body)
{
    ngx_event_t  *ev = ngx_pcalloc(r->pool, sizeof(ngx_event_t));

    if (ev == NULL) {
        return;
    }
    ev->data = r;
    ev->handler = on_turn_end;
    ev->log = r->connection->log;
    r->count++;
    body->turn = ev;
    ngx_post_event(ev, &ngx_posted_events);
}

#endif


/* Where the body is no body nobody knows what follows it: the connection ends with the answer, whatever that is. */
static ngx_int_t
discard(ngx_http_request_t *r)
{
    ngx_int_t  rc = ngx_http_discard_request_body(r);

    if (rc != NGX_OK) {
        r->keepalive = 0;
    }
    return rc;
}


ngx_int_t
edge_body_discard(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    edge_body_t  *body;

    if (ctx == NULL) {
        return discard(r);   /* not traffic: nothing of it is counted */
    }
    body = &ctx->body;
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


/* nginx writes its 100 past the filters, as soon as somebody asks for the body (ngx_http_test_expect). */
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
    if (ctx->body.recv) {
        ctx->body.connection->recv = ctx->body.recv;
        ctx->body.recv = NULL;
    }
    if (ctx->body.turn && ctx->body.turn->posted) {
        ngx_delete_posted_event(ctx->body.turn);
    }
}


/* nginx knows only what it still waits for: of a length that was said, or of the stream's window,
 * which a frame takes from when it begins, with its padding. */
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


/* What an HTTP/2 stream has in its buffer goes through the filter only when somebody takes it, which
 * nobody does once it was reset. */
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


/* What the write filter still holds is not sent; of HTTP/2, header_size has the heads of all frames. */
off_t
edge_body_sent(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    off_t         wire = r->connection->sent - (off_t) r->header_size;
    off_t         body = ctx->body.given;
    ngx_chain_t  *cl;

    if (!r->header_sent || wire <= 0) {
        return 0;
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
