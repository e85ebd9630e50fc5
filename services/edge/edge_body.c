/* Bytes of bodies for the event: those that went over the wire, without what frames them there (sizes of chunks, frames of HTTP/2). */
#include "edge.h"

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


/* What comes here is the body, whatever it came in. */
static ngx_int_t
request_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    edge_ctx_t  *ctx;

    if (in && r == r->main) {
        ctx = edge_ctx(r);
        if (ctx) {
            ctx->body.received += chain_bytes(in);
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


void
edge_body_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    ctx->body.left = r->headers_in.content_length_n;
#if (NGX_HTTP_V2)
    if (r->stream) {
        ctx->body.left = r->stream->recv_window;
    }
#endif
}


/* Of one that nobody reads, nginx knows only what it still waits for: of a length that was said, or of the stream's window.
 * Chunks that are thrown away are not counted. */
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


off_t
edge_body_received(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    if (ctx->body.received || r->request_body) {
        return ctx->body.received;
    }
    return ngx_max(0, thrown_away(r, ctx));
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
