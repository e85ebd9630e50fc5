#include "services/edge/control/edge_bus.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_ask.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/edge_config_log.h"
#include "services/edge/control/edge_follow.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/control/edge_sender.h"
#include "services/edge/control/edge_session_log.h"
#include "services/edge/control/edge_signers.h"
#include "services/edge/control/edge_state.h"
#include "services/edge/control/edge_sync.h"
#include "services/edge/control/edge_timer.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/tls/edge_tickets.h"
#include "services/edge/worker/edge_worker.h"

#include <malloc.h>

enum {
    RETIRE_OBJECTS = 25,   /* of an old table freed in one turn; its pages may be the master's */
    RETIRE_MS = 5,         /* between two turns */
    RETIRE_IDLE_MS = 100,  /* while there is nothing to free */
    MMAP_BYTES = 4 << 20   /* allocations from here on have pages of their own */
};

static ngx_event_t  beat_timer, retire_timer;
static ngx_uint_t   running;


/* ---- messages ---- */

static void
on_message(link_message_t *message)
{
    switch (message->kind) {
    case LINK_CONFIG:
        edge_follow_message(EDGE_LOG_CONFIG, message);
        break;
    case LINK_SESSIONS:
        edge_follow_message(EDGE_LOG_SESSIONS, message);
        break;
    case LINK_SNAPSHOT:
        edge_config_log_want_all();
        break;
    case LINK_KEPT:
    case LINK_UNKEPT:
        edge_config_log_set_kept(message->kind == LINK_KEPT);
        break;
    case LINK_EVENTS:
        edge_sender_message(message);
        break;
    case LINK_NOBODY:
        edge_sender_nobody();
        break;
    case LINK_TICKETS:
        if (message->n == 1) {
            edge_tickets_take(&message->frames[0]);
        }
        break;
    case LINK_SIGNER:
        if (message->n == 1) {
            edge_signers_take(&message->frames[0]);
        }
        break;
    case LINK_ASK:
    case LINK_ASK_THERE:
        edge_ask_message(message);
        break;
    default:
        break;
    }
}


/* The old helper may have died with messages queued: all conversations begin again. */
static void
begin_again(void)
{
    edge_follow_hello(EDGE_LOG_CONFIG);
    edge_follow_hello(EDGE_LOG_SESSIONS);
    edge_sender_restart();
    edge_signers_restart();
    edge_ask_restart();
}


/* ---- timers ---- */

static void
on_beat(ngx_event_t *ev)
{
    edge_sync_check_pause();
    edge_life_ping();
    if (edge_life_revive()) {
        begin_again();
    }
    edge_config_log_beat();
    edge_follow_beat(EDGE_LOG_SESSIONS);
    edge_sync_sign();
    edge_sender_beat();
    ngx_add_timer(ev, EDGE_SYNC_BEAT_MS);
}


static void
on_retire(ngx_event_t *ev)
{
    uint64_t    begin = edge_clock_turn_begin();
    ngx_uint_t  more = edge_worker_free_some(RETIRE_OBJECTS);

    edge_clock_turn_end(begin);
    ngx_add_timer(ev, more ? RETIRE_MS : RETIRE_IDLE_MS);
}


/* ---- lifecycle ---- */

/* Freed memory stays with the process: the heap is not trimmed, and messages of the config log are
 * not mapped one by one. Page faults would cost requests more than the memory is worth. */
static void
tame_allocator(void)
{
    mallopt(M_TRIM_THRESHOLD, -1);
    mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
}


ngx_int_t
edge_bus_open(ngx_cycle_t *cycle)
{
    tame_allocator();
    return edge_life_open(on_message, cycle->log);
}


void
edge_bus_start(ngx_cycle_t *cycle)
{
    running = 1;
    edge_config_log_start(ngx_worker == 0 && edge_state_is_cut());
    edge_resolve_start(cycle, edge_ack_release_all);
    edge_sender_start(cycle->log);
    edge_worker_set_refresh(edge_sync_check_pause);
    edge_follow_hello(EDGE_LOG_SESSIONS);
    edge_sync_start(begin_again);
    edge_follow_listen(EDGE_LOG_CONFIG);
    edge_follow_listen(EDGE_LOG_SESSIONS);
    edge_sender_begin();
    edge_timer_start(&beat_timer, on_beat, cycle->log, EDGE_SYNC_BEAT_MS);
    edge_timer_start(&retire_timer, on_retire, cycle->log, RETIRE_IDLE_MS);
}


void
edge_bus_stop(void)
{
    if (!running) {
        return;
    }
    running = 0;
    edge_sender_stop();
    edge_sync_stop();
    /* nothing is served any more: no change waits for this worker */
    edge_life_say(LINK_CONFIG, (const char *[]) { "bye", NULL });
    edge_life_say(LINK_SESSIONS, (const char *[]) { "bye", NULL });
    edge_life_stop();
    edge_ring_close();   /* the helper has sent the batches that it was given */
}
