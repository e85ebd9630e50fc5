/* What a client of HTTP/2 opens of a window is written at once, while its frames are read, and a
 * frame of SETTINGS opens those of all its streams (RFC 9113 6.9.2): 15 bytes make 128 writes. A
 * client that opens a byte or two each time keeps a worker in the loop that reads its connection,
 * and everybody else waits (the family of CVE-2019-9511 and CVE-2019-9517). nginx has a bound for
 * frames that are much more than the payload, which such ones are not.
 *
 * So what was written is a sliver where it is small and the client's window let no more through. A
 * connection that had SLIVERS_MAX of them, and fewer than PASSED_MIN bytes for each meanwhile, ends
 * at once. The windows of honest clients are opened by kilobytes: of a window of 64 KiB no more
 * than the last frame is a sliver. */
#include "services/edge/http/edge_slivers.h"
#include "services/edge/worker/edge_vitals.h"

enum {
    SLIVER = 256,         /* bytes */
    SLIVERS_MAX = 1024,
    PASSED_MIN = 512,     /* bytes */
    LOG_EVERY_S = 60
};

#if (NGX_HTTP_V2)

/* Of a connection, in its pool; it begins with the first sliver. */
typedef struct {
    ngx_uint_t  count;
    off_t       sent;   /* by the connection, when the count began */
} slivers_t;


/* Its handler is how the record is found among the pool's cleanups. */
static void
end_slivers(void *data)
{
    (void) data;
}


/* NULL: no memory. */
static slivers_t *
slivers_of(ngx_connection_t *c)
{
    slivers_t           *slivers;
    ngx_pool_cleanup_t  *cln;

    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == end_slivers) {
            return cln->data;
        }
    }
    cln = ngx_pool_cleanup_add(c->pool, sizeof(slivers_t));
    if (cln == NULL) {
        return NULL;
    }
    cln->handler = end_slivers;
    slivers = cln->data;
    slivers->count = 0;
    slivers->sent = c->sent;
    return slivers;
}


/* In the midst of its frames: those that are left find no stream that can be written to. */
static void
end_connection(ngx_connection_t *c)
{
    uint64_t       *ended = &edge_vitals(ngx_worker)->slivering_clients;
    static time_t   said;

    (*ended)++;
    if (said == 0 || ngx_time() - said >= LOG_EVERY_S) {
        said = ngx_time();
        ngx_log_error(NGX_LOG_WARN, c->log, 0,
                      "postern: a connection of %V ends: its client takes answers in slivers "
                      "(number %uL; at most one line a minute)", &c->addr_text, *ended);
    }
    c->error = 1;
    c->close = 1;
    ngx_post_event(c->read, &ngx_posted_events);   /* nginx closes it there */
}


static void
note_sliver(ngx_connection_t *c)
{
    slivers_t  *slivers = slivers_of(c);

    if (slivers == NULL || ++slivers->count < SLIVERS_MAX) {
        return;
    }
    if (c->sent - slivers->sent < (off_t) SLIVERS_MAX * PASSED_MIN) {
        end_connection(c);
        return;
    }
    slivers->count = 0;
    slivers->sent = c->sent;
}

#endif


off_t
edge_slivers_window(ngx_http_request_t *r)
{
#if (NGX_HTTP_V2)
    return r->stream ? (off_t) r->stream->send_window : 0;
#else
    (void) r;
    return 0;
#endif
}


void
edge_slivers_sent(ngx_http_request_t *r, off_t open)
{
#if (NGX_HTTP_V2)
    off_t              sent;
    ngx_connection_t  *c;

    if (r->stream == NULL) {
        return;
    }
    sent = open - (off_t) r->stream->send_window;
    if (sent <= 0 || sent >= SLIVER
        || (r->stream->send_window > 0 && r->stream->connection->send_window > 0))
    {
        return;   /* the usual case */
    }
    c = r->stream->connection->connection;
    if (!c->error) {
        note_sliver(c);
    }
#else
    (void) r;
    (void) open;
#endif
}
