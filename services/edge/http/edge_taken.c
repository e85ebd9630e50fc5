/* What nginx counts of an answer is what it has written. What of that has not arrived the kernel
 * says of the connection as a whole, in bytes as they are on the wire, which the connection's BIO
 * counts. */
#include "services/edge/http/edge_taken.h"
#include "services/edge/http/edge_unsent.h"
#include "services/edge/tls/edge_bio.h"


ngx_connection_t *
edge_taken_connection(ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    if (r->stream) {
        return r->stream->connection->connection;
    }
#endif
    return r->connection;
}


static off_t
written_to(ngx_connection_t *c)
{
    return c->ssl ? edge_client(c)->written : c->sent;
}


void
edge_taken_begin(ngx_http_request_t *r, edge_ctx_t *ctx)
{
    taken_begin(&ctx->pace.taken, written_to(edge_taken_connection(r)));
}


/* Of the body alone, without what HTTP/2 frames it in: there a byte of a body takes ten on the
 * wire. */
off_t
edge_taken_measure(edge_ctx_t *ctx)
{
    ngx_http_request_t  *r = ctx->pace.request;
    ngx_connection_t    *c = edge_taken_connection(r);

    taken_measure(&ctx->pace.taken, r->connection->sent - (off_t) r->header_size,
                  written_to(c), edge_unsent_bytes(c));
    return taken_bytes(&ctx->pace.taken);
}
