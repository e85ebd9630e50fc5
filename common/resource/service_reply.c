/* Replies from the workers to their clients: sent at once, or held until the change is in force. */
#include "common/resource/service_internal.h"
#include "common/base/cleanup.h"
#include "common/bus/bus.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* held->reply: identity and three frames. Appends how many edge workers have the change in force,
 * how many are live, and how many open streams the change has ended. */
static void send_reply(void *context, held_reply_t *held)
{
    service_t *self = context;
    zmsg_t *reply = held->reply;
    int64_t revision = held->revision;
    zframe_t *newest = flights_end(self->flights, held->key);

    if (newest) {
        zframe_t *first = zmsg_pop(reply);

        zframe_destroy(&first);
        zmsg_prepend(reply, &newest);
    }
    if (zframe_size(zmsg_first(reply)) == 0) { /* the service's own periodic request */
        self->periodic_until_ms = 0;
        zmsg_destroy(&reply);
        return;
    }
    zmsg_addstrf(reply, "%d", revision ? edges_acked(&self->edges, revision) : 0);
    zmsg_addstrf(reply, "%d", revision ? self->edges.live : 0);
    zmsg_addstrf(reply, "%" PRId64, revision ? edges_ended(&self->edges, revision) : 0);
    zmsg_send(&reply, self->rpc);
    zmsg_destroy(&reply);
}

/* Is the revision in force at every edge worker, and has every lease holder dropped older
 * answers? */
static bool is_in_force(void *context, int64_t revision, int64_t epoch, int64_t now_ms)
{
    const service_t *self = context;

    return (!revision || edges_have(&self->edges, revision))
           && (!epoch || leases_settled(&self->leases, epoch, now_ms));
}

int service_replies_start(service_t *self)
{
    self->held = held_new(&(held_rules_t){is_in_force, send_reply, self});
    return self->held ? 0 : -ENOMEM;
}

void service_release_held(service_t *self)
{
    held_release(self->held, bus_mono_ms());
}

static char *pop_last(zmsg_t *msg)
{
    zframe_t *frame = zmsg_last(msg);
    char *text = zframe_strdup(frame);

    zmsg_remove(msg, frame);
    zframe_destroy(&frame);
    return text;
}

void service_answer_code(service_t *self, const char *key, const char *id, zframe_t **identity_p,
                         int code)
{
    const reply_t reply = {.problem = {.code = code}};
    zmsg_t *msg = reply_encode(id, &reply);

    if (!msg)
        return;
    zmsg_prepend(msg, identity_p);
    held_add(self->held, msg, key, 0, 0, bus_mono_ms());
}

/* The address of a wait_t, if there is one. */
static wait_t *pop_wait(zmsg_t *msg)
{
    zframe_t *frame = zmsg_pop(msg);
    wait_t *wait = NULL;

    if (frame && zframe_size(frame) == sizeof(void *))
        memcpy(&wait, zframe_data(frame), sizeof(void *));
    zframe_destroy(&frame);
    return wait;
}

/* Note in front of whom it stands in the workers' queue. */
static void note_head(wait_t *wait, const char *key, int lane, const char *holder, const char *turn)
{
    wait->lane = lane;
    snprintf(wait->key, sizeof(wait->key), "%s", key);
    snprintf(wait->holder, sizeof(wait->holder), "%s", holder);
    snprintf(wait->turn, sizeof(wait->turn), "%s", turn);
}

/* A reply, or none: the frames of a request that expired are gone. */
static void on_reply(service_t *self, const char *key, zmsg_t *msg)
{
    _cleanup_(free_mem) char *revokes = NULL;
    _cleanup_(free_mem) char *revision_text = NULL;
    int64_t revision, epoch = 0;

    if (!zmsg_size(msg)) { /* expired: nobody waits for a reply */
        zframe_t *newest = flights_end(self->flights, key);

        self->metrics.dropped++;
        zframe_destroy(&newest);
        zmsg_destroy(&msg);
        return;
    }
    revokes = pop_last(msg);
    revision_text = pop_last(msg);
    revision = strtoll(revision_text, NULL, 10);
    if (*revokes)
        epoch = leases_revoke(&self->leases);
    held_add(self->held, msg, key, revision, epoch, bus_mono_ms());
}

static void on_answer(service_t *self, zmsg_t *msg)
{
    _cleanup_(free_mem) char *key = zmsg_popstr(msg);
    _cleanup_(free_mem) char *lane = zmsg_popstr(msg);
    _cleanup_(free_mem) char *holder = zmsg_popstr(msg);
    _cleanup_(free_mem) char *turn = zmsg_popstr(msg);
    wait_t *wait = pop_wait(msg);
    int lane_number = (int)strtol(lane, NULL, 10);

    if (wait && wait->waits) {
        note_head(wait, key, lane_number, holder, turn);
        zmsg_destroy(&msg);
        service_wait_begin(self, wait);
        return;
    }
    if (wait)
        waits_forget(self->waits, &wait);
    on_reply(self, key, msg);
}

int service_on_done(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    service_t *self = context;
    zmsg_t *msg;

    (void)loop;
    (void)item;
    while ((msg = work_poll(self->done)))
        on_answer(self, msg);
    return 0;
}

int service_on_replog(zloop_t *loop, zsock_t *reader, void *context)
{
    service_t *self = context;
    zmsg_t *msg = zmsg_recv(reader);

    (void)loop;
    if (!msg)
        return 0;
    edges_take(&self->edges, msg);
    service_release_held(self);
    zmsg_destroy(&msg);
    return 0;
}
