#include "services/edge/control/edge_session_log.h"
#include "services/edge/control/edge_ack.h"
#include "services/edge/control/edge_clock.h"
#include "services/edge/control/session_entries.h"
#include "services/edge/worker/edge_vitals.h"

/* The log waits with its answers for a worker until it has heard no sign of life of it for 1 s
 * (SUBSCRIBER_DEAD_MS). Its beats repeat the time of the last one that it heard, so a worker knows
 * until when it is waited for, whatever stands still in between: itself, its helper, the log, or
 * the way there or back. */
enum { TOUCH_MS = 900 };

static edge_session_log_handlers_t  handlers;
static void          (*touched)(const u_char *hash);
static follow_t        at;
static uint64_t        signed_ms;   /* the last sign that is known to be heard; 0: none */
static ngx_msec_t      in_touch;    /* ngx_current_msec; 0: never */


void
edge_session_log_set(const edge_session_log_handlers_t *set)
{
    handlers = *set;
}


void
edge_session_log_set_touched(void (*handler)(const u_char *hash))
{
    touched = handler;
}


static ngx_uint_t
is_in_touch(uint64_t sign_ms)
{
    return sign_ms && edge_clock_boot_ms() - sign_ms <= TOUCH_MS;
}


ngx_uint_t
edge_session_log_has_touch(ngx_uint_t worker)
{
    return is_in_touch(edge_vitals(worker)->sessions_signed_ms);
}


ngx_uint_t
edge_session_log_is_current(void)
{
    return is_in_touch(signed_ms);
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
        touched(NULL);
    }
}


static void
end_session(const unsigned char *hash, const char *hex)
{
    (void) hex;
    if (handlers.ended) {
        handlers.ended(hash);
    }
    if (touched) {
        touched(hash);
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


/* Of a beat, previous is the time of the sign that it repeats; 0: none was heard. */
static void
note_current(const follow_message_t *message)
{
    if (message->kind != FOLLOW_BEAT) {
        return;
    }
    signed_ms = message->previous;
    edge_vitals(ngx_worker)->sessions_signed_ms = signed_ms;
    if (edge_session_log_is_current()) {
        in_touch = ngx_current_msec ? ngx_current_msec : 1;
    }
}


const edge_log_row_t *
edge_session_log(void)
{
    static const edge_log_row_t  row = {
        .name = "session log",
        .link = LINK_SESSIONS,
        .at = get_at,
        .drop = drop_arriving,
        .take = take_message,
        .current = note_current
    };

    return &row;
}
