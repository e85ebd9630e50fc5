/* The intake's parts, which share its state: intake.c has the reactor's callbacks and the jobs of
 * the store, intake_accept.c the batches of producers, intake_publish.c the events that go to
 * subscribers, intake_words.c what producers are told. */
#pragma once

#include "common/bus/bus.h"
#include "services/events/batch.h"
#include "services/events/feed.h"
#include "services/events/layout.h"
#include "services/events/pending.h"
#include "services/events/put_off.h"
#include "services/events/store.h"

/* A batch whose events are being published, one of the store's answer (store.h). */
typedef struct publication {
    zframe_t *identity, *header, *body, *numbers; /* identity NULL: no batch */
    char verdict[8];
    size_t offset, events; /* in the body: bytes and events that are done */
    uint64_t unreadable;
} publication_t;

typedef struct intake {
    zloop_t *loop;
    zsock_t *intake; /* ROUTER: producers connect */
    feed_t *feed;
    zactor_t *store;
    store_args_t store_args;
    pending_t *pending; /* batches that wait for the store */
    put_off_t *put_off; /* producers that wait for room in pending */
    bool storing;       /* a job is on its way: stored, published or acknowledged */
    bool timer_set, stopping;
    int64_t job_ms;            /* monotonic ms when the last job began */
    int64_t noted_ms;          /* monotonic ms when the subscribers were noted last */
    zmsg_t *answer;            /* answer of the store: batches that are still to be published */
    publication_t publication; /* the first batch of the answer */
    zhashx_t *producers;       /* hex identity -> zframe identity */
    bool wanted;               /* somebody subscribes to traffic events */
    const char *memory;        /* directory of bodies that are left in memory */
    layout_t *layout;          /* of the values published last */
    msgpack_sbuffer envelope;  /* of the event that is being published */
    unsigned steps;            /* records looked at since the last look at the clock */
    struct {
        uint64_t batches, put_off, repeated, bad, unreadable, gone, given_up;
    } metrics;
} intake_t;

/* ---- intake_words.c: best effort, because producers repeat what is not answered ---- */

/* Do subscribers want traffic events? */
void intake_tell_wanted(intake_t *self, zframe_t *identity);
/* "resend": send again what is not acknowledged | "inline": send bodies instead of leaving them in
 * memory. */
void intake_tell(intake_t *self, zframe_t *identity, const char *word);
/* The key may not send events of this producer. */
void intake_tell_refused(intake_t *self, zframe_t *identity, const char *producer);
/* A batch is done. A bad traffic batch is acknowledged too, because it would stay bad; a bad audit
 * batch is reported to its service, which keeps the event. */
void intake_acknowledge(intake_t *self, zframe_t *identity, const batch_t *batch, bool bad);

/* ---- intake_accept.c ---- */

/* Take one message of a producer: its batch is pending then, or the producer is told why not. */
void intake_take_message(intake_t *self, zmsg_t *msg);

/* ---- intake_publish.c ---- */

/* Publish the store's answer, as far as subscribers take it, until monotonic ms until_ms: it may
 * have hundreds of thousands of events. 0: all of it is published and acknowledged | -EAGAIN: a
 * subscriber's queue is full | -EINPROGRESS: the time is over. Call it again after the last two. */
int intake_publish(intake_t *self, int64_t until_ms);
/* Is there something left to publish of the answer that was given last? */
bool intake_is_publishing(const intake_t *self);
/* Free what is left. */
void intake_publish_done(intake_t *self);
