/* Frames of HTTP/2 that belong to a connection and not to an answer, nginx makes by itself: what
 * acknowledges SETTINGS and PING, RST_STREAM, WINDOW_UPDATE. They wait in the connection's queue
 * until its socket takes them, and then nginx keeps their memory, 184 bytes each, until the
 * connection has no request any more. Nobody is charged for it, and nginx ends a connection at
 * 10,000 of them only (CVE-2019-9512, CVE-2019-9515).
 *
 * An honest client has some dozens: an acknowledgement of each of a few frames, and what a burst of
 * uploads or of refused streams makes. So there may be four for each stream that a connection may
 * have at a time, 94 KB, and more for each request that is under way, whose charge
 * (edge_share.c) has room for those.
 *
 * Each small message of gRPC is answered by a WINDOW_UPDATE of its stream, and a slow download on
 * the same connection keeps all of them waiting. They only add up (RFC 9113 6.9): when many frames
 * wait, those of a stream become one, and what they leave is used for the next ones. */
#include "services/edge/http/edge_frames.h"
#include "services/edge/worker/edge_vitals.h"

#if (NGX_HTTP_V2)
#include <ngx_http_v2_module.h>

enum {
    FRAMES_MAX = 512,        /* of a connection, */
    FRAMES_OF_REQUEST = 64,  /* and for each request under way */
    FRAMES_TO_MERGE = FRAMES_MAX / 2,
    PLACES = 512,            /* of streams whose updates are merged, four for each that may be, */
    PROBES = 16,             /* of which each stream is looked for in so many */
    UPDATE_SIZE = 4,         /* WINDOW_UPDATE's payload, */
    INCREMENT_MAX = 0x7fffffff,   /* and what it says at most */
    LOG_EVERY_S = 60
};


/* ---- updates of windows ---- */

static uint32_t
number(const u_char *p)
{
    return (uint32_t) p[0] << 24 | (uint32_t) p[1] << 16 | (uint32_t) p[2] << 8 | p[3];
}


/* A WINDOW_UPDATE of which not a byte has gone: its bytes; NULL: something else. */
static u_char *
update_that_waits(const ngx_http_v2_out_frame_t *frame)
{
    const ngx_buf_t  *b = frame->first->buf;

    if (frame->stream || frame->blocked || frame->first != frame->last || b->pos != b->start
        || b->last - b->pos != NGX_HTTP_V2_FRAME_HEADER_SIZE + UPDATE_SIZE
        || b->pos[3] != NGX_HTTP_V2_WINDOW_UPDATE_FRAME)
    {
        return NULL;
    }
    return b->pos;
}


/* Adds what one update opens to another one of the same stream. 0: it is of another one, or too
 * much. */
static ngx_uint_t
add_update(u_char *to, const u_char *from)
{
    u_char    *at = to + NGX_HTTP_V2_FRAME_HEADER_SIZE;
    uint64_t   sum = (uint64_t) number(at) + number(from + NGX_HTTP_V2_FRAME_HEADER_SIZE);

    if (number(to + 5) != number(from + 5) || sum > INCREMENT_MAX) {
        return 0;
    }
    at[0] = (u_char) (sum >> 24);
    at[1] = (u_char) (sum >> 16);
    at[2] = (u_char) (sum >> 8);
    at[3] = (u_char) sum;
    return 1;
}


/* The newest update of the stream that this one is of, or where it would stand. NULL: others have
 * the places; the stream keeps more than one update. */
static u_char **
place_of(u_char **newest, u_char *update)
{
    ngx_uint_t      i;
    const uint32_t  stream = number(update + 5);

    for (i = 0; i < PROBES; i++) {
        u_char  **place = &newest[(stream / 2 + i) % PLACES];

        if (*place == NULL || number(*place + 5) == stream) {
            return place;
        }
    }
    return NULL;
}


/* The queue begins with the newest frame, and is sent from its end. */
static void
merge_updates(ngx_http_v2_connection_t *h2c)
{
    u_char                   *update, **newer, *newest[PLACES] = { NULL };
    ngx_http_v2_out_frame_t  *frame, **out = &h2c->last_out;

    while ((frame = *out) != NULL) {
        update = update_that_waits(frame);
        newer = update ? place_of(newest, update) : NULL;
        if (newer && *newer && add_update(*newer, update)) {
            *out = frame->next;
            frame->next = h2c->free_frames;
            h2c->free_frames = frame;
            continue;
        }
        if (newer) {
            *newer = update;
        }
        out = &frame->next;
    }
}


/* ---- floods ---- */

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
edge_frames_are_too_many(ngx_http_v2_connection_t *h2c)
{
    ngx_uint_t  frames, most = FRAMES_MAX + FRAMES_OF_REQUEST * h2c->processing;

    if (h2c->frames <= FRAMES_TO_MERGE) {   /* nginx counts those of answers, too */
        return 0;                           /* the usual case */
    }
    if (h2c->free_frames == NULL) {   /* the next one would be one more */
        merge_updates(h2c);
    }
    if (h2c->frames <= most) {
        return 0;
    }
    frames = count_frames(h2c);
    if (frames <= most) {
        return 0;
    }
    note_end(h2c->connection, frames);
    return 1;
}

#endif
