/* A stream of HTTP/2 that its client has reset is none of those that the connection may have at a
 * time (RFC 9113 5.1.2). So who resets each at once has any number of them begun, with all that a
 * request costs up to there: a module's decision, a dial, an event (CVE-2023-44487). nginx has a
 * bound for one turn of its loop, and http2's requests for one connection (keepalive_requests); in
 * between a connection is one of these when more than RESETS_MIN of its streams, and most of them,
 * were reset. It is told GOAWAY and takes no new streams from then on; those that it has go on.
 * That costs an honest client, whose user skips through pictures or a film, one handshake, and no
 * request, unless it sends a head of two frames at that moment (edge_goaway.c).
 *
 * A stream that the edge resets because of what the client sends for it, such as a window that is
 * too large, counts as well (CVE-2025-8671). */
#include "services/edge/http/edge_resets.h"
#include "services/edge/http/edge_goaway.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    RESETS_MIN = 100,
    LOG_EVERY_S = 60
};

#if (NGX_HTTP_V2)

/* Of a connection, in its pool; it begins with the first reset. */
typedef struct {
    ngx_uint_t  count;
} resets_t;


/* Its handler is how the record is found among the pool's cleanups. */
static void
end_resets(void *data)
{
    (void) data;
}


/* NULL: no memory. */
static resets_t *
resets_of(ngx_connection_t *c)
{
    resets_t            *resets;
    ngx_pool_cleanup_t  *cln;

    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == end_resets) {
            return cln->data;
        }
    }
    cln = ngx_pool_cleanup_add(c->pool, sizeof(resets_t));
    if (cln == NULL) {
        return NULL;
    }
    cln->handler = end_resets;
    resets = cln->data;
    resets->count = 0;
    return resets;
}


static void
end_connection(ngx_http_v2_connection_t *h2c, const resets_t *resets)
{
    uint64_t          *ended = &edge_vitals(ngx_worker)->resetting_clients;
    static time_t      said;
    ngx_connection_t  *c = h2c->connection;

    (*ended)++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "postern: a connection of %V takes no more streams: its client has reset "
                      "%ui of %ui (number %uL; at most one line a minute)", &c->addr_text,
                      resets->count, c->requests, *ended);
    }
    edge_goaway_send(h2c);
    ngx_post_event(c->write, &ngx_posted_events);   /* the frame waits in the queue */
}


static ngx_uint_t
is_reset_by_client(const ngx_http_request_t *r)
{
    return r->connection->error && (r->stream->out_closed || r->stream->rst_sent);
}

#endif


void
edge_resets_note(ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    resets_t          *resets;
    ngx_connection_t  *c;

    if (r->stream == NULL || !is_reset_by_client(r)) {
        return;   /* the usual case */
    }
    c = r->stream->connection->connection;
    if (c->error || r->stream->connection->goaway) {
        return;
    }
    resets = resets_of(c);
    if (resets && ++resets->count > RESETS_MIN && 2 * resets->count > c->requests) {
        end_connection(r->stream->connection, resets);
    }
#else
    (void) r;
#endif
}
