#include "services/edge/control/edge_config_log.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_follow.h"
#include "services/edge/control/edge_resolve.h"
#include "services/edge/events/edge_ring.h"
#include "services/edge/worker/edge_vitals.h"
#include "services/edge/worker/edge_worker.h"

enum {
    HOLD_MS = 1500,        /* a change with names to resolve is acknowledged after this anyway */
    SNAPSHOT_MS = 60000,   /* between two that the state file asks for */
    SNAPSHOT_FIRST_MS = 1000   /* while it is behind: twice as long after each that did not help */
};

static ngx_msec_t    snapshot_asked;
static ngx_msec_t    snapshot_pause = SNAPSHOT_MS;
static edge_wait_t  *arriving_names;         /* that came with a snapshot */


void
edge_config_log_start(ngx_uint_t wants_all)
{
    if (wants_all) {
        edge_worker_want_all();
    }
}


void
edge_config_log_want_all(void)
{
    edge_worker_want_all();   /* the next beat asks */
}


void
edge_config_log_set_kept(ngx_uint_t kept)
{
    if (kept) {
        snapshot_pause = SNAPSHOT_MS;
    } else if (edge_ack_is_kept()) {
        snapshot_pause = SNAPSHOT_FIRST_MS;
    }
    edge_ack_set_kept(kept);
}


void
edge_config_log_beat(void)
{
    const follow_t  *at = edge_worker_at();

    if (edge_follow_beat(EDGE_LOG_CONFIG)) {
        return;
    }
    if (at->wants_all && at->revision && !at->arriving
        && ngx_current_msec - snapshot_asked > snapshot_pause)
    {
        snapshot_asked = ngx_current_msec;
        if (!edge_ack_is_kept()) {
            snapshot_pause = ngx_min(2 * snapshot_pause, SNAPSHOT_MS);
        }
        edge_follow_hello(EDGE_LOG_CONFIG);
    }
}


/* ---- the row ---- */

static void
drop_arriving_names(void)
{
    edge_resolve_wait_drop(arriving_names);
    arriving_names = NULL;
}


static void
drop_arriving(void)
{
    edge_worker_drop_arriving(0);
    drop_arriving_names();
}


/* names: those that came with it, and are the caller's no more. */
static void
note_in_force(edge_wait_t *names)
{
    int64_t           revision = edge_worker_at()->revision;
    edge_counters_t  *counters = edge_ring_counters(ngx_worker);

    counters->revision = revision;
    edge_vitals(ngx_worker)->entries_refused = table_refused(edge_worker_table());
    edge_ack_take(EDGE_LOG_CONFIG, revision, names);
}


static void
finish_message(follow_step_t step, edge_wait_t *names)
{
    switch (step) {
    case FOLLOW_CHANGE:
        note_in_force(names);
        return;
    case FOLLOW_END:
        edge_ack_reset(EDGE_LOG_CONFIG);
        note_in_force(arriving_names);
        arriving_names = NULL;
        break;
    default:
        break;
    }
    edge_resolve_wait_drop(names);
}


/* Names that come with the message: those of a snapshot are waited for together, at its end. */
static follow_step_t
take_message(const follow_message_t *message, const ngx_str_t *body)
{
    edge_wait_t    *names = NULL;
    follow_step_t   step;

    if (message->kind == FOLLOW_SNAPSHOT) {
        drop_arriving_names();
        arriving_names = edge_resolve_wait_new();
    } else if (message->kind == FOLLOW_DELTA) {
        names = edge_resolve_wait_new();
    }
    edge_resolve_wait_for(names ? names : arriving_names);
    step = edge_worker_take(message, body->data, body->len, ngx_cycle->log);
    edge_resolve_wait_for(NULL);
    finish_message(step, names);
    if (!edge_worker_at()->arriving) {
        drop_arriving_names();
    }
    return step;
}


static void
note_current(const follow_message_t *message)
{
    (void) message;
    edge_vitals(ngx_worker)->config_current = ngx_time();
    edge_ring_counters(ngx_worker)->ready = 1;
}


const edge_log_row_t *
edge_config_log(void)
{
    static const edge_log_row_t  row = {
        .name = "config log",
        .link = LINK_CONFIG,
        .patience = HOLD_MS,
        .at = edge_worker_at,
        .drop = drop_arriving,
        .take = take_message,
        .current = note_current
    };

    return &row;
}
