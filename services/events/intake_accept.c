/* Batches of producers: who may send them, whether there is room, and where their bodies lie. */
#include "common/base/cleanup.h"
#include "services/events/intake_internal.h"
#include "services/events/memory.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { PRODUCERS_MAX = 1024 /* connections remembered, those that ended too */ };

static void remember_producer(intake_t *self, zframe_t *identity)
{
    _cleanup_(free_mem) char *key = zframe_strhex(identity);

    intake_tell_wanted(self, identity);
    if (!zhashx_lookup(self->producers, key)) {
        /* A new connection: what was on the way over the producer's last one may be lost, so it has
         * to send again. */
        if (zhashx_size(self->producers) >= PRODUCERS_MAX)
            zhashx_purge(self->producers); /* those that are alive say hello within a second */
        zhashx_insert(self->producers, key, zframe_dup(identity));
        intake_tell(self, identity, "resend");
    }
}

/* Is there no room for this batch? Then its producer keeps the batch, and is told when there is
 * room. */
static bool is_put_off(intake_t *self, zframe_t *identity, zmsg_t *msg, const batch_t *batch)
{
    size_t bytes = PENDING_OVERHEAD + zmsg_content_size(msg);

    if (*batch->memory && batch->len > 0 && batch->len <= PENDING_KEY_BYTES)
        bytes += (size_t)batch->len;
    if (!put_off_batch(self->put_off, self->pending, identity, peer_of(zmsg_first(msg)).id, batch,
                       bytes, bus_mono_ms()))
        return false;
    self->metrics.put_off++;
    return true;
}

/* May this key send events of this producer? A batch under another's name would use up that one's
 * numbers, and its own events would later count as seen. */
static bool may_produce(intake_t *self, zframe_t *identity, zframe_t *header, const batch_t *batch)
{
    peer_t peer = peer_of(header);
    const char *family = batch->audit ? "audit" : "traffic";
    char why[200];

    if (role_may_produce(peer.role, peer.name, family, batch->producer))
        return true;
    snprintf(why, sizeof(why), "sends %s events of %s", family, batch->producer);
    peer_refused(SOCKET_INTAKE, peer.id, why);
    intake_tell_refused(self, identity, batch->producer);
    return false;
}

/* Fetch the body of a batch that its producer left in memory; at once, because the producer keeps
 * it only while it has room. False: the producer was told to send it, or to send it later. */
static bool fetch_body(intake_t *self, zframe_t *identity, const batch_t *batch, zmsg_t *msg)
{
    zframe_t *header = zmsg_first(msg), *body = zmsg_last(msg);
    zframe_t *fetched;
    char why[256];
    int r;

    if (zframe_size(body) || !*batch->memory)
        return true;
    r = memory_fetch(self->memory, batch, &fetched);
    if (r == -EPERM) {
        snprintf(why, sizeof(why), "names memory %s, which is not that of %s", batch->memory,
                 batch->producer);
        peer_refused(SOCKET_INTAKE, peer_of(header).id, why);
    }
    if (r) {
        intake_tell(self, identity, r == -ESTALE ? "resend" : "inline");
        return false;
    }
    zmsg_remove(msg, body);
    zframe_destroy(&body);
    zmsg_append(msg, &fetched);
    return true;
}

/* Refuse a header that cannot be read, and keep nothing of it. If it names a producer of the
 * sender's and a number, it is answered, so that a broken batch in an edge's spool does not stop
 * those behind it. An acknowledgement is good for all older batches too, so only the oldest gets
 * one. */
static void refuse_header(intake_t *self, zframe_t *identity, zframe_t *header,
                          const batch_t *batch)
{
    self->metrics.bad++;
    if (*batch->producer && !may_produce(self, identity, header, batch))
        return;
    peer_refused(SOCKET_INTAKE, peer_of(header).id, "sent a batch whose header cannot be read");
    if (*batch->producer && (batch->audit || batch->oldest))
        intake_acknowledge(self, identity, batch, true);
    else if (*batch->producer)
        intake_tell(self, identity, "resend");
}

/* Take [header][body] of a producer. False: not taken; the producer was told why, or will be told
 * when there is room. */
static bool accept_batch(intake_t *self, zframe_t *identity, zmsg_t *msg, batch_t *ret_batch)
{
    zframe_t *header = zmsg_first(msg);

    if (batch_header(zframe_data(header), zframe_size(header), ret_batch)) {
        refuse_header(self, identity, header, ret_batch);
        return false;
    }
    if (!may_produce(self, identity, header, ret_batch))
        return false;
    if (is_put_off(self, identity, msg, ret_batch))
        return false;
    return fetch_body(self, identity, ret_batch, msg);
}

/* Take one message: [identity][""] when a producer connects (ZMQ_PROBE_ROUTER) |
 * [identity]["hello"] | [identity]["batch"][header][body]. */
void intake_take_message(intake_t *self, zmsg_t *msg)
{
    zframe_t *identity = zmsg_pop(msg);
    _cleanup_(free_mem) char *word = zmsg_popstr(msg);
    const char *id;
    batch_t batch;

    if (identity && word && (!*word || !strcmp(word, "hello"))) {
        remember_producer(self, identity);
    } else if (identity && word && !strcmp(word, "batch") && zmsg_size(msg) == 2) {
        self->metrics.batches++;
        if (!accept_batch(self, identity, msg, &batch)) {
            zframe_destroy(&identity);
            zmsg_destroy(&msg);
            return;
        }
        /* borrowed from the identity frame, which the pending batch keeps */
        id = peer_of(zmsg_first(msg)).id;
        zmsg_prepend(msg, &identity);
        pending_add(self->pending, id, batch.count, &msg);
        return;
    } else {
        self->metrics.bad++;
    }
    zframe_destroy(&identity);
    zmsg_destroy(&msg);
}
