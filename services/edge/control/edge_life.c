#include "services/edge/control/edge_life.h"
#include "common/base/invariant.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/edge_helper.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_sync.h"
#include "services/edge/control/liveness.h"
#include "services/edge/worker/edge_vitals.h"

#include <poll.h>

_Static_assert((int) EDGE_SYNC_BEAT_MS == (int) LIVENESS_BEAT_MS, "the beats of one clock");

enum {
    /* for a helper to start; without one, the worker tries again after the next */
    START_MS = 5000,
    /* between two starts: answers wait 1 s for a worker that cannot be told of changes */
    AGAIN_MS = 400,
    STAT_BYTES = 1024,      /* of /proc/PID/task/PID/stat, which is some 350 */
    TURN_US = 1000,         /* of one event loop turn, for config messages */
    TEXTS_MAX = 5
};

static link_t                helper = LINK_CLOSED;
static pid_t                 helper_pid;
static ngx_msec_t            helper_started;
static liveness_t            liveness;     /* of the helper */
static edge_life_handler_pt  handler;


/* ---- sending ---- */

ngx_int_t
edge_life_send(link_kind_t kind, const ngx_str_t *frames, ngx_uint_t n)
{
    return link_send(&helper, kind, frames, n, MSG_DONTWAIT);
}


void
edge_life_say(link_kind_t kind, const char *const *texts)
{
    ngx_str_t   frames[TEXTS_MAX];
    ngx_uint_t  n;

    for (n = 0; n < TEXTS_MAX && texts[n]; n++) {
        frames[n].data = (u_char *) texts[n];
        frames[n].len = ngx_strlen(texts[n]);
    }
    (void) edge_life_send(kind, frames, n);
}


/* ---- receiving ---- */

const char *
edge_life_text(const link_message_t *message, ngx_uint_t i, char *out, size_t size)
{
    size_t  len = i < message->n ? message->frames[i].len : 0;

    INVARIANT(size > 0 && message->n <= LINK_FRAMES_MAX);
    if (len >= size) {
        len = size - 1;
    }
    if (len) {
        ngx_memcpy(out, message->frames[i].data, len);
    }
    out[len] = '\0';
    return out;
}


int64_t
edge_life_number(const link_message_t *message, ngx_uint_t i)
{
    char  text[32];

    return strtoll(edge_life_text(message, i, text, sizeof(text)), NULL, 10);
}


void
edge_life_log_refused(const char *who, const link_message_t *message)
{
    char            code[8], name[160];
    static time_t   said;

    if (ngx_time() - said < 60) {
        return;
    }
    said = ngx_time();
    ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                  "postern: the %s refuses this edge's key for the name "
                  "\"%s\" (%s): postern_edge_name is to be what the key is "
                  "called", who,
                  edge_life_text(message, 2, name, sizeof(name)),
                  edge_life_text(message, 1, code, sizeof(code)));
}


/* ---- life ---- */

/* The helper is gone, or does not answer and was killed. Another one is started at the next
 * beat. */
static void
lose_helper(const char *why)
{
    edge_vitals_t  *vitals = edge_vitals(ngx_worker);

    ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                  "postern: the helper process %P %s: another one is started",
                  helper_pid, why);
    vitals->helper_absent = 1;
    vitals->helper_restarts++;
    vitals->helper_restarted = ngx_time();
    link_close(&helper);
}


/* The kernel makes the text from memory: nobody waits for a disk. */
static liveness_sight_t
look_at_helper(void)
{
    int      fd;
    char     name[64], text[STAT_BYTES];
    ssize_t  len;

    snprintf(name, sizeof(name), "/proc/%d/task/%d/stat", (int) helper_pid, (int) helper_pid);
    fd = open(name, O_RDONLY|O_CLOEXEC);
    if (fd < 0) {
        return (liveness_sight_t) { 0 };
    }
    len = read(fd, text, sizeof(text) - 1);
    close(fd);
    text[len > 0 ? len : 0] = '\0';
    return liveness_sight_read(text);
}


/* Beats are counted, not time: a worker that was stopped itself has counted none meanwhile. */
void
edge_life_ping(void)
{
    liveness_sight_t    sight = { 0 };
    liveness_verdict_t  verdict;

    if (helper.fd < 0) {
        return;
    }
    if (liveness_needs_sight(&liveness)) {
        sight = look_at_helper();
    }
    verdict = liveness_beat(&liveness, (int64_t) edge_clock_boot_ms(), &sight);
    if (verdict != LIVENESS_THERE) {
        edge_vitals(ngx_worker)->helper_absent = 1;
    }
    if (verdict == LIVENESS_DEAD) {
        kill(helper_pid, SIGKILL);   /* it must not come back to the state file */
        lose_helper("does not answer");
        return;
    }
    (void) link_send(&helper, LINK_PING, NULL, 0, MSG_DONTWAIT);
}


/* All messages that wait, within the time of one turn; the rest in the next. */
static void
receive_waiting(void)
{
    uint64_t         start = edge_clock_us();
    ngx_int_t        rc;
    link_message_t   message;

    do {
        rc = link_receive(&helper, &message, MSG_DONTWAIT);
        if (rc == NGX_OK) {
            liveness_heard(&liveness);
            edge_vitals(ngx_worker)->helper_absent = 0;
            handler(&message);
        }
    } while (rc == NGX_OK && edge_clock_us() - start <= TURN_US);
    if (rc == NGX_ERROR) {
        lose_helper("ended");
    }
}


static void
on_readable(ngx_event_t *ev)
{
    uint64_t  begin = edge_clock_turn_begin();

    (void) ev;
    receive_waiting();
    edge_clock_turn_end(begin);
}


ngx_uint_t
edge_life_poll(ngx_msec_t timeout)
{
    struct pollfd  pfd = { helper.fd, POLLIN, 0 };

    if (poll(&pfd, 1, timeout) <= 0) {
        return 0;
    }
    receive_waiting();
    return 1;
}


static ngx_int_t
start_helper(ngx_log_t *log)
{
    int  link, names;

    helper_started = ngx_current_msec;
    ngx_memzero(&liveness, sizeof(liveness));
    helper_pid = edge_helper_start(&link, &names);
    if (helper_pid < 0) {
        ngx_log_error(NGX_LOG_ALERT, log, ngx_errno,
                      "postern: cannot start the helper process");
        return NGX_ERROR;
    }
    if (edge_resolve_connect(names, log) != NGX_OK) {
        close(link);
        return NGX_ERROR;
    }
    return link_watch(&helper, link, on_readable, log);
}


/* Wait for the helper's first message, LINK_READY. A helper that cannot make its sockets has
 * logged why, and ends. Messages behind the first one stay in the link until the worker has read
 * its state: an answer before that would name a revision that this worker does not stay at. */
static ngx_int_t
wait_until_ready(void)
{
    ngx_int_t        rc = NGX_AGAIN;
    ngx_msec_t       start;
    link_message_t   message;
    struct pollfd    pfd = { helper.fd, POLLIN, 0 };

    ngx_time_update();
    start = ngx_current_msec;
    while (rc == NGX_AGAIN && ngx_current_msec - start < START_MS) {
        if (poll(&pfd, 1, 100) > 0) {
            rc = link_receive(&helper, &message, MSG_DONTWAIT);
        }
        ngx_time_update();
    }
    return rc == NGX_OK && message.kind == LINK_READY ? NGX_OK : NGX_ERROR;
}


ngx_int_t
edge_life_open(edge_life_handler_pt set, ngx_log_t *log)
{
    handler = set;
    return start_helper(log) == NGX_OK ? wait_until_ready() : NGX_ERROR;
}


ngx_uint_t
edge_life_revive(void)
{
    return helper.fd < 0 && ngx_current_msec - helper_started > AGAIN_MS
           && start_helper(ngx_cycle->log) == NGX_OK;
}


static void
wait_for_end(void)
{
    ngx_int_t        rc = NGX_AGAIN;
    ngx_uint_t       waited;
    link_message_t   message;
    struct pollfd    pfd = { helper.fd, POLLIN, 0 };

    if (helper.fd < 0 || shutdown(helper.fd, SHUT_WR) != 0) {
        return;
    }
    for (waited = 0; rc != NGX_ERROR && waited < 2 * EDGE_LINGER_MS;
         waited += 10)
    {
        if (poll(&pfd, 1, 10) > 0) {
            do {
                rc = link_receive(&helper, &message, MSG_DONTWAIT);
            } while (rc == NGX_OK);
        }
    }
}


void
edge_life_stop(void)
{
    wait_for_end();
    link_close(&helper);
}
