/* nginx gives up a client that sends nothing of its body for client_body_timeout, and begins anew
 * with each byte. A byte now and then keeps the request, its connection to the upstream, and what
 * the application has for it, for ever. So each body is looked at once in client_body_timeout.
 * Where the upstream could take more at this look and the last one, and all the time between, and
 * fewer than postern_client_give_min bytes came, the request ends: with a page, if nothing was
 * answered yet.
 *
 * Left alone are calls of gRPC and tunnels, whose silence has a time of its own; conversations, in
 * which the answer has begun to a body whose end nobody has announced; and bodies that the edge
 * reads itself, which have a time to come in whole. */
#include "services/edge/http/edge_upload.h"
#include "services/edge/http/edge_end.h"
#include "services/edge/http/edge_looks.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_vitals.h"
#include "common/base/err.h"

enum { LOG_EVERY_S = 60 };


static ngx_uint_t
takes_more(ngx_http_upstream_t *u)
{
    ngx_connection_t  *c = u->peer.connection;

    return u->request_sent && !u->request_body_blocked && c && c->write->ready;
}


/* Is it the client that the upstream waits for? */
static ngx_uint_t
is_waited_for(ngx_http_request_t *r, const edge_ctx_t *ctx)
{
    /* nginx counts what has come of chunks as their length */
    ngx_uint_t  talks = r->header_sent
                        && (r->headers_in.chunked || r->headers_in.content_length_n < 0);

    return r->reading_body && !ctx->grpc && !ctx->tunnelled && !ctx->posted && !talks
           && r->upstream && !r->upstream->upgrade && takes_more(r->upstream);
}


static void
end_slow(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    uint64_t       *slow = &edge_vitals(ngx_worker)->slow_bodies;
    static time_t   said;

    (*slow)++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, r->connection->log, 0,
                      "postern: a client is cut off: it sent fewer than %uz "
                      "bytes of its body in %M ms (number %uL; at most one line "
                      "a minute)", edge_conf()->client_give_min,
                      edge_conf()->body_timeout, *slow);
    }
    r->keepalive = 0;
    edge_upload_end(ctx);
    edge_end_request(ctx, ERR_EDGE_BODY_SLOW);   /* ctx may be gone from here on */
}


static void
look_at(look_t *look)
{
    edge_ctx_t          *ctx = (edge_ctx_t *) ((char *) look - offsetof(edge_ctx_t, upload.look));
    off_t                came = ctx->body.received - ctx->upload.received;
    edge_upload_t       *self = &ctx->upload;
    ngx_http_request_t  *r = ctx->pace.request;

    if (!is_waited_for(r, ctx)) {
        self->waited = 0;
        return;
    }
    if (self->waited && came < (off_t) edge_conf()->client_give_min) {
        end_slow(r, ctx);
        return;
    }
    self->waited = 1;
    self->received = ctx->body.received;
}


static edge_looks_t  looks = { .look_at = look_at };


void
edge_upload_received(edge_ctx_t *ctx)
{
    if (look_is_watched(&ctx->upload.look) || ctx->request == NULL) {
        return;   /* what goes to no route has no upstream */
    }
    edge_looks_watch(&looks, &ctx->upload.look);
}


void
edge_upload_blocked(edge_ctx_t *ctx)
{
    ctx->upload.waited = 0;
}


void
edge_upload_end(edge_ctx_t *ctx)
{
    looks_forget(&ctx->upload.look);
}


void
edge_upload_start(ngx_cycle_t *cycle)
{
    edge_looks_start(&looks, cycle, edge_conf()->body_timeout);
}
