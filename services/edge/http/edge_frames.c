/* Frames of HTTP/2 that belong to a connection and not to an answer, nginx makes by itself: what
 * acknowledges SETTINGS and PING, RST_STREAM, WINDOW_UPDATE. They wait in the connection's queue
 * until its socket takes them, and then nginx keeps their memory, 184 bytes each, until the
 * connection has no request any more. Nobody is charged for it, and nginx ends a connection at
 * 10,000 of them only (CVE-2019-9512, CVE-2019-9515).
 *
 * An honest client has some dozens: an acknowledgement of each of a few frames, and what a burst of
 * uploads or of refused streams makes. So there may be four for each stream that a connection may
 * have at a time, 94 KB, and more for each request that is under way, whose charge
 * (edge_share.c) has room for those, most of all while its body still comes (edge_body_memory.c):
 * messages of gRPC, of which each small one is answered by a WINDOW_UPDATE, make many while a slow
 * download on the same connection fills its socket. */
#include "services/edge/http/edge_frames.h"
#include "services/edge/worker/edge_vitals.h"

#if (NGX_HTTP_V2)
#include <ngx_http_v2_module.h>

enum {
    FRAMES_MAX = 512,        /* of a connection, */
    FRAMES_OF_REQUEST = 64,  /* and for each request under way, */
    FRAMES_OF_BODY = 192,    /* and for each whose body is not there yet */
    LOG_EVERY_S = 60
};


/* Requests whose client may still send. */
static ngx_uint_t
count_bodies(const ngx_http_v2_connection_t *h2c)
{
    ngx_uint_t                i, n = 0;
    ngx_http_v2_node_t       *node;
    ngx_http_v2_srv_conf_t   *h2scf;

    h2scf = ngx_http_get_module_srv_conf(h2c->http_connection->conf_ctx, ngx_http_v2_module);
    for (i = 0; i <= h2scf->streams_index_mask; i++) {
        for (node = h2c->streams_index[i]; node; node = node->index) {
            n += node->stream && !node->stream->in_closed;
        }
    }
    return n;
}


/* Those that wait, and those that nginx keeps. What waits of an answer belongs to a stream. */
static ngx_uint_t
count_frames(const ngx_http_v2_connection_t *h2c)
{
    ngx_uint_t                n = 0;
    ngx_http_v2_out_frame_t  *frame;

    for (frame = h2c->last_out; frame; frame = frame->next) {
        n += frame->stream == NULL;
    }
    for (frame = h2c->free_frames; frame; frame = frame->next) {
        n++;
    }
    return n;
}


static void
note_end(const ngx_connection_t *c, ngx_uint_t frames)
{
    uint64_t       *ended = &edge_vitals(ngx_worker)->flooding_clients;
    static time_t   said;

    (*ended)++;
    if (said && ngx_time() - said < LOG_EVERY_S) {
        return;
    }
    said = ngx_time();
    ngx_log_error(NGX_LOG_WARN, c->log, 0,
                  "postern: a connection of %V ends: its client has made %ui frames that answer "
                  "its own, such as PING, stand there at a time (number %uL; at most one line a "
                  "minute)", &c->addr_text, frames, *ended);
}


ngx_uint_t
edge_frames_are_too_many(const ngx_http_v2_connection_t *h2c)
{
    ngx_uint_t  frames, most = FRAMES_MAX + FRAMES_OF_REQUEST * h2c->processing;

    if (h2c->frames <= most) {   /* nginx counts those of answers, too */
        return 0;                /* the usual case */
    }
    frames = count_frames(h2c);
    if (frames <= most + FRAMES_OF_BODY * count_bodies(h2c)) {
        return 0;
    }
    note_end(h2c->connection, frames);
    return 1;
}

#endif
