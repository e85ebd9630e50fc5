#include "services/edge/control/edge_sender.h"
#include "common/base/invariant.h"
#include "services/edge/control/edge_life.h"
#include "services/edge/control/edge_timer.h"
#include "services/edge/events/edge_memory.h"
#include "services/edge/events/edge_ring.h"

#include <msgpack.h>

enum {
    BATCH_MS = 20,          /* larger batches wake fewer threads and commits an event */
    WINDOW = 64,            /* batches on the way */
    HELLO_MS = 1000,
    QUIET_MS = 10000,       /* hellos to somebody who does not answer */
    ACK_MS = 30000,         /* without progress: unacknowledged batches go again */
    RESEND_MS = 250         /* between two that the intake asks for */
};

static ngx_event_t  batch_timer;
static ngx_msec_t   heard, hello_said, resent, moved;
static ngx_uint_t   resend_due;   /* asked for, and not done yet */
static ngx_uint_t   absent;       /* nobody takes batches */
static ngx_uint_t   is_inline;    /* the intake cannot read our memory */
static ngx_uint_t   running;
static ngx_int_t    on_way;


/* ---- out ---- */

static ngx_int_t
send_batch(edge_batch_t *batch)
{
    char             seq[24];
    ngx_int_t        rc;
    ngx_str_t        frames[2];
    msgpack_packer   packer;
    msgpack_sbuffer  header;
    edge_place_t     place = batch->place;
    ngx_uint_t       shared = *edge_memory_name() && !is_inline
                              && !place.spooled;

#define STR(text) msgpack_pack_str(&packer, ngx_strlen(text)); \
    msgpack_pack_str_body(&packer, text, ngx_strlen(text))

    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, shared ? 11 : 6);
    STR("producer");
    STR(batch->producer);
    STR("family");
    STR("traffic");
    snprintf(seq, sizeof(seq), "%llu", (unsigned long long) batch->seq);
    STR("seq");
    STR(seq);
    STR("count");
    msgpack_pack_uint32(&packer, batch->count);
    STR("dropped");
    msgpack_pack_uint64(&packer, batch->dropped);
    STR("oldest");
    batch->oldest ? msgpack_pack_true(&packer) : msgpack_pack_false(&packer);
    if (shared) {
        STR("memory");
        STR(edge_memory_name());
        STR("body");
        msgpack_pack_int64(&packer, batch->shared.body);
        STR("len");
        msgpack_pack_uint32(&packer, place.len);
        STR("tail");
        msgpack_pack_int64(&packer, batch->shared.tail);
        STR("at");
        msgpack_pack_uint64(&packer, place.at);
        place.len = 0;
    }
#undef STR
    frames[0].data = (u_char *) header.data;
    frames[0].len = header.size;
    frames[1].data = (u_char *) &place;
    frames[1].len = sizeof(place);
    rc = edge_life_send(LINK_BATCH, frames, 2);
    msgpack_sbuffer_destroy(&header);
    return rc;
}


static void
send_waiting(void)
{
    edge_batch_t  batch;

    if (!running) {
        return;
    }
    INVARIANT(on_way >= 0 && on_way <= WINDOW);
    while (!absent && on_way < WINDOW && edge_ring_next(&batch)) {
        if (send_batch(&batch) != NGX_OK) {
            edge_sender_nobody();
            break;
        }
        if (on_way++ == 0) {
            moved = ngx_current_msec;
        }
    }
    if (edge_ring_unsent() && !batch_timer.timer_set) {
        ngx_add_timer(&batch_timer, BATCH_MS);
    }
}


static void
on_batch_timer(ngx_event_t *ev)
{
    (void) ev;
    edge_ring_seal();
    send_waiting();
}


/* All batches go again, from the oldest one that is not acknowledged. */
static void
send_again(void)
{
    on_way = 0;
    edge_ring_resend();
}


void
edge_sender_nobody(void)
{
    absent = 1;
    send_again();
}


static void
resend_all(void)
{
    resend_due = 0;
    resent = ngx_current_msec;
    send_again();
    send_waiting();
}


/* ---- in ---- */

static void
on_ack(link_message_t *message)
{
    char  producer[sizeof(((edge_batch_t *) 0)->producer)];

    moved = ngx_current_msec;
    edge_ring_acknowledge(edge_life_text(message, 2, producer, sizeof(producer)),
                          edge_life_number(message, 1));
    if (on_way > 0) {
        on_way--;
    }
    send_waiting();
}


void
edge_sender_message(link_message_t *message)
{
    char  word[16];

    edge_life_text(message, 0, word, sizeof(word));
    heard = ngx_current_msec;
    absent = 0;
    if (ngx_strcmp(word, "want") == 0) {
        edge_ring_want(edge_life_number(message, 1) != 0);

    } else if (ngx_strcmp(word, "refused") == 0) {
        edge_life_log_refused("events service", message);

    } else if (ngx_strcmp(word, "resend") == 0) {
        /* The intake says so for each batch that came too early or found no room: one resend
         * answers for all that are on the way. It may not say it again, so a request that comes
         * too soon after the last resend is served at the next beat. */
        resend_due = 1;
        if (ngx_current_msec - resent > RESEND_MS) {
            resend_all();
        }

    } else if (ngx_strcmp(word, "inline") == 0 && !is_inline) {
        is_inline = 1;   /* it cannot read our memory: another machine, or another user */
        send_again();
        send_waiting();

    } else if (ngx_strcmp(word, "ack") == 0) {
        on_ack(message);
    }
}


/* ---- its course ---- */

void
edge_sender_start(ngx_log_t *log)
{
    running = 1;
    edge_ring_want(1);   /* until told otherwise */
    edge_ring_set_sender(send_waiting);
    edge_timer_start(&batch_timer, on_batch_timer, log, 0);
}


static void
say_hello(void)
{
    hello_said = ngx_current_msec;
    edge_life_say(LINK_EVENTS, (const char *[]) { "hello", NULL });
}


void
edge_sender_begin(void)
{
    heard = ngx_current_msec;
    say_hello();
}


void
edge_sender_restart(void)
{
    send_again();
    absent = 0;
    say_hello();
}


void
edge_sender_beat(void)
{
    if (ngx_current_msec - hello_said
        >= (heard >= hello_said ? HELLO_MS : QUIET_MS))
    {
        say_hello();
    }
    if (on_way && ngx_current_msec - moved > ACK_MS) {
        moved = ngx_current_msec;
        send_again();
    }
    absent = 0;
    if (resend_due) {
        resend_all();
    } else {
        send_waiting();
    }
}


void
edge_sender_stop(void)
{
    edge_batch_t  batch;

    edge_ring_seal();
    while (edge_ring_next(&batch) && send_batch(&batch) == NGX_OK) { /* void */ }
    running = 0;
    edge_ring_want(0);
}
