/* The logs that the worker follows, in the helper: what the copies of a service say is merged into
 * one conversation (merge.c), large bodies are put together (parts.c), and beside worker 0 changes
 * go to the state file before the worker hears of them. */
#include "services/edge/control/edge_helper_logs.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/control/edge_store.h"
#include "services/edge/control/parts.h"
#include "services/edge/worker/edge_conf.h"
#include "common/base/invariant.h"

#include <time.h>

enum { BETWEEN = 5 };   /* the frame with the revisions between: of use to the state file only */

/* One of the logs, as the copies of its service tell it. */
typedef struct {
    const char     *peer;            /* the service: its key */
    link_kind_t     kind;            /* of its messages in the link to the worker */
    edge_socket_t   copies[MERGE_COPIES_MAX];
    parts_t         parts[MERGE_COPIES_MAX];
    merge_t         merge;           /* what the copies say, for one worker */
    ngx_int_t       passed;          /* NGX_OK, while the worker takes what is passed to it */
} told_t;

enum { CONFIG, SESSIONS, LOGS };

static told_t   logs[LOGS] = {
    { .peer = "routes", .kind = LINK_CONFIG },
    { .peer = "identity", .kind = LINK_SESSIONS }
};
static link_t  *worker;


static const merge_ports_t  ports;   /* below */

/* frames of the one are copied into frames of the other */
_Static_assert((int) MERGE_FRAMES_MAX == (int) LINK_FRAMES_MAX, "frames of a message");


/* endpoints: of the service's copies, with commas between; see edge_helper_copies. */
static ngx_int_t
open_log(told_t *log, void **context, const ngx_str_t *endpoints)
{
    u_char     *at = endpoints->data, *end = at + endpoints->len, *comma;
    ngx_str_t   endpoint;
    ngx_int_t   n = 0, rc = NGX_OK;

    for ( ; at < end && rc == NGX_OK; at = comma + 1) {
        comma = ngx_strlchr(at, end, ',');
        comma = comma ? comma : end;
        endpoint.data = at;
        endpoint.len = comma - at;
        INVARIANT(n < MERGE_COPIES_MAX);   /* see edge_helper_copies */
        log->copies[n].kind = log->kind;
        rc = edge_socket_open(&log->copies[n], context, &endpoint, log->peer);
        if (rc == NGX_OK) {
            n++;
        } else if (log->copies[n].socket) {
            zmq_close(log->copies[n].socket);
        }
    }
    merge_init(&log->merge, n, &ports, log);
    return rc;
}


ngx_int_t
edge_helper_logs_open(void **context, link_t *to)
{
    worker = to;
    if (open_log(&logs[CONFIG], context, &edge_conf()->config_log) != NGX_OK) {
        return NGX_ERROR;
    }
    /* logged: without it everything else is served, and nobody signs in */
    (void) open_log(&logs[SESSIONS], context, &edge_conf()->session_log);
    return NGX_OK;
}


/* A change is written to disk before the worker hears of it, so what the worker acknowledges is
 * there. Where it could not be written, the worker is told so before it hears of the change. */
static void
keep_message(const ngx_str_t *frames, ngx_uint_t n)
{
    store_standing_t         now;
    static store_standing_t  told = STORE_UNKNOWN;

    edge_store_message(frames, n);
    now = edge_store_standing();
    if (now != told) {
        link_send(worker, now == STORE_BEHIND ? LINK_UNKEPT : LINK_KEPT, NULL,
                  0, 0);
        told = now;
    }
    if (edge_store_wants_snapshot()) {
        link_send(worker, LINK_SNAPSHOT, NULL, 0, 0);
    }
}


static int64_t
now_ms(void)
{
    struct timespec  now;

    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t) now.tv_sec * 1000 + now.tv_nsec / 1000000;
}


static bool
copy_is_there(void *context, int copy)
{
    const told_t  *log = context;

    return edge_socket_is_ready(&log->copies[copy], ZMQ_POLLOUT);
}


static bool
to_copy(void *context, int copy, const merge_frame_t *frames, size_t n)
{
    size_t           i;
    told_t          *log = context;
    link_message_t   message;

    INVARIANT(copy >= 0 && copy < log->merge.count && n <= LINK_FRAMES_MAX);
    message.n = n;
    for (i = 0; i < n; i++) {
        message.frames[i].data = (u_char *) frames[i].data;
        message.frames[i].len = frames[i].len;
    }
    if (n == 5 && frames[0].len == 5
        && ngx_strncmp(frames[0].data, "hello", 5) == 0)
    {
        ngx_str_set(&message.frames[n], "parts");   /* it may send large bodies so: parts.h */
        message.n++;
    }
    return edge_socket_send(&log->copies[copy], message.frames, message.n) == NGX_OK;
}


static void
pass_to_worker(void *context, const merge_frame_t *frames, size_t n)
{
    size_t      i;
    told_t     *log = context;
    ngx_str_t   texts[LINK_FRAMES_MAX];

    for (i = 0; i < n; i++) {
        texts[i].data = (u_char *) frames[i].data;
        texts[i].len = frames[i].len;
    }
    if (ngx_worker == 0 && log->kind == LINK_CONFIG) {
        keep_message(texts, n);
    }
    log->passed = link_send(worker, log->kind, texts, ngx_min(n, BETWEEN), 0);
}


static const merge_ports_t  ports = { copy_is_there, to_copy, pass_to_worker };


static size_t
frames_of(const ngx_str_t *texts, size_t n, merge_frame_t *frames)
{
    size_t  i;

    for (i = 0; i < n; i++) {
        frames[i].data = (const char *) texts[i].data;
        frames[i].len = texts[i].len;
    }
    return n;
}


void
edge_helper_logs_take(const link_message_t *message)
{
    told_t         *log = &logs[message->kind == LINK_CONFIG ? CONFIG : SESSIONS];
    merge_frame_t   frames[LINK_FRAMES_MAX];

    merge_from_worker(&log->merge, frames,
                      frames_of(message->frames, message->n, frames), now_ms());
}


static ngx_int_t
log_from_copy(told_t *log, int copy, const ngx_str_t *texts, ngx_uint_t n)
{
    size_t         count;
    ngx_str_t      word;
    merge_frame_t  frames[LINK_FRAMES_MAX];

    count = frames_of(texts, n, frames);
    switch (parts_take(&log->parts[copy], frames, &count)) {
    case PARTS_WAIT:
        ngx_str_set(&word, "part");   /* the log is not silent */
        return link_send(worker, log->kind, &word, 1, 0);
    case PARTS_LOST:
        /* its next beat names another revision than what passed, and it is greeted */
        return NGX_OK;
    default:
        break;
    }
    log->passed = NGX_OK;
    merge_from_copy(&log->merge, copy, frames, count, now_ms());
    return log->passed;
}


static ngx_int_t
take_message(void *context, edge_socket_t *bus, const ngx_str_t *frames, ngx_uint_t n)
{
    told_t  *log = context;

    return log_from_copy(log, bus - log->copies, frames, n);
}


ngx_int_t
edge_helper_logs_turn(void)
{
    int         i, k;
    ngx_int_t   rc = NGX_OK;

    for (i = 0; i < LOGS; i++) {
        for (k = 0; k < logs[i].merge.count && rc == NGX_OK; k++) {
            rc = edge_socket_drain(&logs[i].copies[k], take_message, &logs[i]);
        }
    }
    return rc;
}


int
edge_helper_logs_poll(zmq_pollitem_t *items)
{
    int  i, k, n = 0;

    for (i = 0; i < LOGS; i++) {
        for (k = 0; k < logs[i].merge.count; k++, n++) {
            items[n] = (zmq_pollitem_t) { logs[i].copies[k].socket, 0, ZMQ_POLLIN, 0 };
        }
    }
    return n;
}


void
edge_helper_logs_close(void)
{
    int  i, k;

    for (i = 0; i < LOGS; i++) {
        for (k = 0; k < logs[i].merge.count; k++) {
            zmq_close(logs[i].copies[k].socket);
        }
    }
}
