/* A request whose upstream responds before it has read all of it. One that finds an upload too
 * large sends 413 and closes; the kernel resets that connection as soon as more of it arrives.
 * nginx takes the failed write for a failed request, and sends 502 or cuts the response off. But
 * the response was sent before the reset and can still be read. So a failed write ends the upload
 * only: nginx goes on reading the response, or finds that there is none.
 *
 * The head of a request of HTTP/2 waits for the events of the turn in which it came: its body often
 * comes in the same bytes, and goes out with it in one system call. */
#include "services/edge/http/edge_writer.h"
#include "services/edge/http/edge_failover.h"
#include "services/edge/http/edge_grpc.h"
#include "services/edge/http/edge_reader.h"
#include "services/edge/http/edge_upload.h"


static void
throw_away(ngx_chain_t *in)
{
    for (/* void */; in; in = in->next) {
        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }
}


/* Makes nginx believe that the whole request was sent. What the client still sends is
 * discarded after the response (lingering close); then its connection is closed. */
static void
stop_writing(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    throw_away(r->upstream->writer.out);
    r->upstream->writer.out = NULL;
    r->upstream->writer.last = &r->upstream->writer.out;
    if (r->reading_body) {
        ctx->writer.stopped = 1;
        r->reading_body = 0;
        r->keepalive = 0;
        r->lingering_close = 1;
    }
}


static ngx_chain_t *
send_nothing(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    (void) c;
    (void) limit;
    return in;
}


/* Is this the head alone, of a request whose body the worker may have in a moment? */
static ngx_uint_t
may_wait(const ngx_http_request_t *r, edge_ctx_t *ctx, const ngx_chain_t *in)
{
    ngx_uint_t  first = !ctx->writer.began;

    ctx->writer.began = 1;
#if (NGX_HTTP_V2)
    return first && r->stream && r->reading_body && ctx->grpc == NULL && in && in->next == NULL;
#else
    return 0;
#endif
}


/* nginx's writer keeps what the connection did not take, and sends it with what is next, or when
 * the connection's write event runs. */
static ngx_int_t
write_later(edge_ctx_t *ctx, ngx_connection_t *c, ngx_chain_t *in)
{
    ngx_int_t          rc;
    ngx_send_chain_pt  send_chain = c->send_chain;

    c->send_chain = send_nothing;
    rc = ctx->writer.filter(ctx->writer.data, in);
    c->send_chain = send_chain;
    ngx_post_event(c->write, &ngx_posted_events);
    return rc;
}


/* Wraps nginx's writer to the upstream. Where the first write of a request fails it is an error as
 * ever: no response can be there. That of gRPC is called once more after a failure: it may have to
 * note that the response is complete. */
static ngx_int_t
on_write(void *data, ngx_chain_t *in)
{
    ngx_int_t            rc;
    edge_ctx_t          *ctx;
    ngx_connection_t    *c;
    ngx_http_request_t  *r = data;

    ctx = edge_ctx(r);
    c = r->upstream->peer.connection;
    if (ctx == NULL || c == NULL) {
        return NGX_ERROR;
    }
    edge_reader_stands(c);
    if (ctx->grpc && edge_grpc_begin_write(r, ctx, in) != NGX_OK) {
        return NGX_ERROR;
    }
    if (ctx->grpc == NULL && c->write->error && c->sent) {
        throw_away(in);
        return NGX_OK;
    }
    edge_failover_stands(r, ctx);
    if (may_wait(r, ctx, in)) {
        return write_later(ctx, c, in);
    }
    rc = ctx->writer.filter(ctx->writer.data, in);
    if (rc == NGX_AGAIN) {
        edge_upload_blocked(ctx);
    }
    if (ctx->grpc && rc != NGX_ERROR) {
        edge_grpc_end_write(r, ctx);
    }
    if (rc != NGX_ERROR || !c->write->error || c->sent == 0) {
        return rc;
    }
    stop_writing(r, ctx);
    return NGX_OK;
}


void
edge_writer_watch(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ngx_output_chain_ctx_t  *output = &r->upstream->output;

    ctx->writer.filter = output->output_filter;
    ctx->writer.data = output->filter_ctx;
    output->output_filter = on_write;
    output->filter_ctx = r;
}


ngx_uint_t
edge_writer_is_refused(ngx_http_request_t *r)
{
    return r->reading_body && r->upstream
           && r->upstream->headers_in.connection_close;
}
