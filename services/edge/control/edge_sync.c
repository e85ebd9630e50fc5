#include "services/edge/control/edge_sync.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/edge_follow.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_worker.h"

enum {
    SYNC_MS = 1000,        /* a starting worker waits this long for the config log */
    ABSENT_MS = 500,       /* and for a word of one that did not answer the last time */
    HELLO_AGAIN_MS = 100,  /* while nobody serves yet */
    PART_MS = 750,         /* without a part of a message: it does not come any more */
    POLL_MS = 20,
    RESOLVE_MS = 1000,     /* for names, at the start */
    /* without a sign of life; from 1 s on changes are answered without this worker */
    PAUSE_MS = 900,
    PAUSE_RESOLVE_MS = 250 /* after one, for names that came meanwhile */
};

static uint64_t     signed_ms;   /* the last sign of life, by the machine's clock */
static ngx_uint_t   running;
static void       (*greet)(void);


/* signed_ms is taken before the sign is sent: the writer counts from when it arrives. */
void
edge_sync_sign(void)
{
    const follow_t  *at = edge_worker_at();

    signed_ms = edge_clock_boot_ms();
    if (at->revision && !at->arriving) {
        edge_resolve_release_spent();
    }
    edge_follow_sign(EDGE_LOG_CONFIG);
    edge_follow_sign(EDGE_LOG_SESSIONS);
}


/* Where the last wait was in vain, the next is shorter, until there is any word. */
static ngx_msec_t
sync_patience(void)
{
    return edge_follow_is_absent(EDGE_LOG_CONFIG) ? ABSENT_MS : SYNC_MS;
}


/* The first hello of a wait voids the messages that the log sent before it; repeated ones do not.
 * *said: when the last one was said; 0: none was. */
static void
say_hello(ngx_msec_t *said)
{
    if (edge_worker_at()->arriving) {
        return;
    }
    if (*said == 0) {
        *said = ngx_current_msec;
        edge_follow_hello(EDGE_LOG_CONFIG);
    } else if (ngx_current_msec - *said > HELLO_AGAIN_MS
               && !edge_follow_is_receiving(EDGE_LOG_CONFIG, PART_MS))
    {
        *said = ngx_current_msec;
        edge_follow_hello_again(EDGE_LOG_CONFIG);
    }
}


/* No request is answered meanwhile, so it is over after SYNC_MS without a part of what is in
 * force. The helper and the writer are kept up as by beats. NGX_OK: the config log has said what
 * is in force | NGX_DECLINED: it did not answer. */
static ngx_int_t
wait_for_config(void)
{
    ngx_msec_t  start, beat, said = 0;

    ngx_time_update();
    start = beat = ngx_current_msec;
    edge_follow_expect(EDGE_LOG_CONFIG);
    while (!edge_follow_is_synced(EDGE_LOG_CONFIG) && ngx_current_msec - start < sync_patience()) {
        if (edge_life_revive()) {
            greet();
        }
        say_hello(&said);
        if (ngx_current_msec - beat >= EDGE_SYNC_BEAT_MS) {
            beat = ngx_current_msec;
            edge_life_ping();
            edge_sync_sign();
        }
        if (edge_life_poll(POLL_MS) && edge_worker_at()->arriving) {
            start = ngx_current_msec;   /* it goes on: wait for its end */
        }
        ngx_time_update();
    }
    signed_ms = edge_clock_boot_ms();
    edge_follow_expected(EDGE_LOG_CONFIG);
    return edge_follow_is_synced(EDGE_LOG_CONFIG) ? NGX_OK : NGX_DECLINED;
}


/* The writer gives up who is silent for 1 s, and answers changes without it. A worker that stood
 * still for so long (a signal, a machine that was paused, swap) cannot tell, so before it
 * answers the next request it asks. What lies in its helper's link was said before: only what
 * comes behind the answer to this hello counts. Without an answer it serves what it has. The
 * next time it asks again, with less patience: the config log may have come back while it stood
 * still, and nothing told it so. */
void
edge_sync_check_pause(void)
{
    uint64_t  now = edge_clock_boot_ms(), pause = now - signed_ms;

    if (pause <= PAUSE_MS || !running) {
        return;
    }
    signed_ms = now;
    edge_follow_doubt(EDGE_LOG_CONFIG);
    edge_follow_hello(EDGE_LOG_SESSIONS);   /* it may have given this worker up */
    ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                  "postern: this worker stood still for %uL ms: it asks the "
                  "config log what is in force", pause);
    if (wait_for_config() != NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the config log does not answer: serving "
                      "revision %L", edge_worker_at()->revision);
    }
    edge_follow_trust(EDGE_LOG_CONFIG);
    if (edge_ack_is_waiting(EDGE_LOG_CONFIG)) {
        edge_resolve_wait(PAUSE_RESOLVE_MS);
    }
}


void
edge_sync_start(void (*again)(void))
{
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);
    const follow_t   *at = edge_worker_at();

    running = 1;
    greet = again;
    edge_follow_trust(EDGE_LOG_CONFIG);   /* nothing was said to this worker before */
    if (wait_for_config() != NGX_OK) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the config log does not answer: serving "
                      "revision %L from disk", at->revision);
    }
    edge_resolve_wait(RESOLVE_MS);
    counters->revision = at->revision;
    counters->ready = edge_follow_is_synced(EDGE_LOG_CONFIG) || at->revision > 0;
}


void
edge_sync_stop(void)
{
    running = 0;
}
