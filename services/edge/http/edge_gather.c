/* nginx writes each response of HTTP/2 by itself: a record of TLS and a system call for each, also
 * where ten of them became ready in the same turn of the event loop. Here their frames stay in the
 * buffer of TLS, as those without the flag flush do, and the connection's write event, posted, runs
 * behind the other events of the turn and sends what the buffer holds by then. nginx copes with a
 * buffer that is not empty: the event's handler sends it, and so does whatever closes the
 * connection or lets it idle. Only frames of responses wait: what is sent outside the filters of
 * one (answers to SETTINGS and PING, GOAWAY, resets) has the flag, and takes along what waits. With
 * 16 connections of 4 requests each, 1 KiB bodies and one worker that was 3.7 responses a write.
 *
 * What waits is lost where nginx closes the connection in the same turn because the client has
 * closed it, or broke HTTP/2: a client that sends a request and its FIN together may not get the
 * answer, which without this it would have got where the edge itself gave it. */
#include "services/edge/http/edge_gather.h"

#if (NGX_HTTP_V2 && NGX_HTTP_SSL)

enum { FLAGGED_MAX = 64 };

typedef struct {
    ngx_buf_t  *buf;
    unsigned    flush:1;
    unsigned    last_buf:1;
} flagged_t;

static ngx_connection_t  *gathering;   /* the client's, while a filter of its response runs */


/* NGX_BUSY: there are more than fit. */
static ngx_int_t
take_flags(ngx_chain_t *in, flagged_t *flagged, ngx_uint_t *n)
{
    ngx_buf_t  *buf;

    for (*n = 0; in; in = in->next) {
        buf = in->buf;
        if (!buf->flush && !buf->last_buf) {
            continue;
        }
        if (*n == FLAGGED_MAX) {
            return NGX_BUSY;
        }
        flagged[*n].buf = buf;
        flagged[*n].flush = buf->flush;
        flagged[*n].last_buf = buf->last_buf;
        (*n)++;
        buf->flush = 0;
        buf->last_buf = 0;
    }
    return NGX_OK;
}


static void
give_flags_back(const flagged_t *flagged, ngx_uint_t n)
{
    while (n-- > 0) {
        flagged[n].buf->flush = flagged[n].flush;
        flagged[n].buf->last_buf = flagged[n].last_buf;
    }
}


static ngx_chain_t *
send_later(ngx_connection_t *c, ngx_chain_t *in, off_t limit)
{
    flagged_t     flagged[FLAGGED_MAX];
    ngx_uint_t    n;
    ngx_chain_t  *rest;

    if (c != gathering || in == NULL) {
        return ngx_ssl_send_chain(c, in, limit);
    }
    if (take_flags(in, flagged, &n) != NGX_OK) {
        give_flags_back(flagged, n);
        return ngx_ssl_send_chain(c, in, limit);
    }
    rest = ngx_ssl_send_chain(c, in, limit);
    give_flags_back(flagged, n);
    if (rest != NGX_CHAIN_ERROR && (c->buffered & NGX_SSL_BUFFERED)) {
        ngx_post_event(c->write, &ngx_posted_events);
    }
    return rest;
}


void
edge_gather_begin(ngx_http_request_t *r)
{
    ngx_connection_t  *c;

    if (r->stream == NULL) {
        return;
    }
    c = r->stream->connection->connection;
    if (c->send_chain == ngx_ssl_send_chain) {
        c->send_chain = send_later;
    }
    gathering = c;
}


void
edge_gather_end(void)
{
    gathering = NULL;
}

#else

void
edge_gather_begin(ngx_http_request_t *r)
{
    (void) r;
}


void
edge_gather_end(void)
{
}

#endif
