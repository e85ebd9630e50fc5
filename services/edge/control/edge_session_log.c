#include "services/edge/control/edge_session_log.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/edge_follow.h"
#include "services/edge/control/edge_sync.h"
#include "services/edge/control/session_entries.h"
#include "services/edge/worker/edge_vitals.h"

/* Beats come every 250 ms. The log gives a worker up that is silent for 1 s, and answers without
 * it; a worker that hears nothing must have noticed before. */
enum { TOUCH_MS = 900 };

static edge_session_log_handlers_t  handlers;
static void          (*touched)(const char *hex, size_t len);
static follow_t        at;
static ngx_msec_t      in_touch;   /* ngx_current_msec; 0: never */
static uint64_t        heard_ms;   /* any message, by the machine's clock; 0: none */


void
edge_session_log_set(const edge_session_log_handlers_t *set)
{
    handlers = *set;
}


void
edge_session_log_set_touched(void (*handler)(const char *hex, size_t len))
{
    touched = handler;
}


ngx_uint_t
edge_session_log_has_touch(ngx_uint_t worker)
{
    uint64_t  since = edge_vitals(worker)->sessions_touched_ms;

    return since && edge_clock_boot_ms() - since <= TOUCH_MS;
}


ngx_uint_t
edge_session_log_is_current(void)
{
    return edge_session_log_has_touch(ngx_worker) && edge_sync_is_awake();
}


ngx_msec_t
edge_session_log_touched(void)
{
    return in_touch;
}


/* ---- the row ---- */

static const follow_t *
get_at(void)
{
    return &at;
}


static void
drop_arriving(void)
{
    follow_drop(&at);
}


/* Whatever is known of sessions may be out of date. */
static void
doubt_all(void)
{
    if (handlers.in_doubt) {
        handlers.in_doubt();
    }
    if (touched) {
        touched(NULL, 0);
    }
}


static void
end_session(const unsigned char *hash, const char *hex)
{
    if (handlers.ended) {
        handlers.ended(hash);
    }
    if (touched) {
        touched(hex, SESSION_ENTRY_HEX);
    }
    edge_vitals(ngx_worker)->sessions_ended++;
}


/* An entry that is not understood says something of sessions that nobody here knows. */
static ngx_int_t
apply_entries(const ngx_str_t *body)
{
    size_t  others;

    if (!session_entries_read(body->data, body->len, end_session, &others)) {
        return NGX_ERROR;
    }
    if (others) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, 0,
                      "postern: %uz entries of the session log cannot be read: "
                      "every session is asked for", others);
        doubt_all();
    }
    return NGX_OK;
}


static void
note_in_force(void)
{
    edge_vitals(ngx_worker)->sessions_revision = at.revision;
    edge_ack_take(EDGE_LOG_SESSIONS, at.revision, NULL);
}


/* A snapshot has no entries: it says that this worker is not told what ended before it. */
static follow_step_t
take_message(const follow_message_t *message, const ngx_str_t *body)
{
    follow_step_t  step = follow_take(&at, message);

    switch (step) {
    case FOLLOW_END:
        edge_ack_reset(EDGE_LOG_SESSIONS);
        doubt_all();
        note_in_force();
        break;
    case FOLLOW_CHANGE:
        if (apply_entries(body) != NGX_OK) {
            follow_failed(&at, message);
            return FOLLOW_FAILED;
        }
        note_in_force();
        break;
    default:
        break;
    }
    return step;
}


static void
note_current(ngx_uint_t synced)
{
    edge_vitals_t  *vitals = edge_vitals(ngx_worker);

    if (synced) {
        in_touch = ngx_current_msec ? ngx_current_msec : 1;
    }
    vitals->sessions_touched_ms = synced ? edge_clock_boot_ms() : 0;
}


const edge_log_row_t *
edge_session_log(void)
{
    static const edge_log_row_t  row = {
        .name = "session log",
        .link = LINK_SESSIONS,
        .strict = 1,
        .at = get_at,
        .drop = drop_arriving,
        .take = take_message,
        .current = note_current
    };

    return &row;
}


/* After a silence the log may have given this worker up, and answered without it; what is heard
 * now may have been said before that. Only what comes behind the answer to another hello counts. */
void
edge_session_log_message(link_message_t *message)
{
    uint64_t  now = edge_clock_boot_ms(), last = heard_ms;

    heard_ms = now;
    if (last && now - last > TOUCH_MS) {
        edge_follow_hello(EDGE_LOG_SESSIONS);
    }
    edge_follow_message(EDGE_LOG_SESSIONS, message);
}
