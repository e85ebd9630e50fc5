/* Once a connection takes no more streams nginx skips each HEADERS, but takes the CONTINUATION
 * behind one for an error, and ends the connection with all that is under way on it. A client that
 * has not read GOAWAY yet may well send a head of two frames. So where nothing is lost by another
 * request the client is first asked to begin none, as RFC 9113 6.8 says, by the largest id that a
 * stream may have. What was on its way then is served, and later, after more than a round trip of
 * nearly every link that a download fills, the connection takes no more. */
#include "services/edge/http/edge_goaway.h"

#if (NGX_HTTP_V2)

enum {
    PAYLOAD = 8,              /* bytes */
    ID_MOST = 0x7fffffff,     /* of a stream */
    ROUND_TRIP_MS = 20000     /* at most, behind up to 1 MiB that is not sent yet */
};

/* Of a connection that the client was asked to leave, in its pool. */
typedef struct {
    ngx_event_t  over;   /* a timer: nothing is on its way any more */
} leaving_t;


static ngx_int_t
on_sent(ngx_http_v2_connection_t *h2c, ngx_http_v2_out_frame_t *frame)
{
    (void) h2c;
    return frame->first->buf->pos == frame->first->buf->last ? NGX_OK
                                                             : NGX_AGAIN;
}


static u_char *
put_number(u_char *p, uint32_t number)
{
    number = htonl(number);
    /* not nginx's macros: they store to an address that need not be aligned here */
    return ngx_cpymem(p, &number, sizeof(number));
}


/* NGX_ERROR: no memory, and the connection is one that has failed. */
static ngx_int_t
queue_frame(ngx_http_v2_connection_t *h2c, ngx_uint_t last)
{
    u_char                   *p;
    ngx_pool_t               *pool;
    ngx_http_v2_out_frame_t  *frame;

    pool = h2c->pool ? h2c->pool : h2c->connection->pool;
    frame = ngx_pcalloc(pool, sizeof(ngx_http_v2_out_frame_t));
    if (frame == NULL
        || (frame->first = ngx_alloc_chain_link(pool)) == NULL
        || (frame->first->buf = ngx_create_temp_buf(pool,
                NGX_HTTP_V2_FRAME_HEADER_SIZE + PAYLOAD)) == NULL)
    {
        h2c->connection->error = 1;
        return NGX_ERROR;
    }
    frame->first->next = NULL;
    frame->last = frame->first;
    frame->handler = on_sent;
    frame->length = PAYLOAD;
    p = frame->first->buf->pos;
    p = put_number(p, frame->length << 8 | NGX_HTTP_V2_GOAWAY_FRAME);
    *p++ = NGX_HTTP_V2_NO_FLAG;
    p = put_number(p, 0);
    p = put_number(p, last);
    p = put_number(p, 0);   /* NO_ERROR */
    frame->first->buf->last = p;
    frame->first->buf->last_buf = 1;
    ngx_http_v2_queue_blocked_frame(h2c, frame);
    return NGX_OK;
}


void
edge_goaway_send(ngx_http_v2_connection_t *h2c)
{
    if (queue_frame(h2c, h2c->last_sid) == NGX_OK) {
        h2c->goaway = 1;
    }
}


/* The connection may be gone afterwards. */
static void
on_over(ngx_event_t *ev)
{
    ngx_connection_t          *c = ev->data;
    ngx_http_v2_connection_t  *h2c = c->data;

    if (c->error || h2c->goaway) {
        return;
    }
    if (h2c->processing || h2c->last_out || c->buffered) {
        edge_goaway_send(h2c);
        ngx_post_event(c->write, &ngx_posted_events);
        return;
    }
    c->close = 1;
    c->read->handler(c->read);   /* nginx says GOAWAY by itself, and closes it */
}


static void
end_leaving(void *data)
{
    leaving_t  *leaving = data;

    if (leaving->over.timer_set) {
        ngx_del_timer(&leaving->over);
    }
}


static ngx_uint_t
is_leaving(const ngx_connection_t *c)
{
    ngx_pool_cleanup_t  *cln;

    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == end_leaving) {
            return 1;
        }
    }
    return 0;
}


void
edge_goaway_begin(ngx_http_v2_connection_t *h2c)
{
    leaving_t           *leaving;
    ngx_connection_t    *c = h2c->connection;
    ngx_pool_cleanup_t  *cln;

    if (c->error || h2c->goaway || is_leaving(c)) {
        return;
    }
    cln = ngx_pool_cleanup_add(c->pool, sizeof(leaving_t));
    if (cln == NULL) {
        c->error = 1;
        return;
    }
    cln->handler = end_leaving;
    leaving = cln->data;
    ngx_memzero(leaving, sizeof(*leaving));
    leaving->over.data = c;
    leaving->over.handler = on_over;
    leaving->over.log = c->log;
    leaving->over.cancelable = 1;
    if (queue_frame(h2c, ID_MOST) == NGX_OK) {
        ngx_add_timer(&leaving->over, ROUND_TRIP_MS);
    }
}

#endif
