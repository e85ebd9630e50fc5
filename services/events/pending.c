#include "services/events/pending.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "services/events/batch.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { ID_SIZE = 128 };

typedef struct waiting {
    zmsg_t *msg; /* identity, header, body */
    int64_t events;
} waiting_t;

/* The batches of one key. */
typedef struct share {
    char id[ID_SIZE];
    zlistx_t *batches; /* waiting_t */
    size_t bytes;
    bool full;     /* it was full, and more than PENDING_KEY_LITTLE is left */
    size_t in_job; /* bytes of this key in the current job */
    int64_t events_in_job;
    void *turn; /* its place in turns */
} share_t;

struct pending {
    zhashx_t *shares; /* id -> share_t of turns */
    zlistx_t *turns;  /* share_t with at least one batch each; the first has the next turn */
    size_t bytes;
    bool full;
};

static void destroy_batch(void **item)
{
    waiting_t *self = *item;

    zmsg_destroy(&self->msg);
    free(self);
    *item = NULL;
}

static void destroy_share(void **item)
{
    share_t *self = *item;

    zlistx_destroy(&self->batches);
    free(self);
    *item = NULL;
}

pending_t *pending_new(void)
{
    _cleanup_(pending_destroy) pending_t *self = memory_new(sizeof(*self), "batches that wait");

    self->shares = memory_need(zhashx_new(), "batches that wait");
    self->turns = memory_need(zlistx_new(), "batches that wait");
    zlistx_set_destructor(self->turns, destroy_share);
    return take(self);
}

void pending_destroy(pending_t **self_p)
{
    pending_t *self = *self_p;

    if (!self)
        return;
    zhashx_destroy(&self->shares);
    zlistx_destroy(&self->turns);
    free(self);
    *self_p = NULL;
}

bool pending_has_room(const pending_t *self, const char *id)
{
    return pending_room(self, id) > 0;
}

size_t pending_room(const pending_t *self, const char *id)
{
    const share_t *share = zhashx_lookup(self->shares, id);
    size_t all, own;

    /* or the room would be an underflow, and never end */
    INVARIANT(self->full || self->bytes <= PENDING_BYTES);
    INVARIANT(!share || share->full || share->bytes < PENDING_KEY_BYTES);
    /* one byte beyond what is left makes it full */
    all = self->full ? 0 : PENDING_BYTES + 1 - self->bytes;
    own = !share ? PENDING_KEY_BYTES : share->full ? 0 : PENDING_KEY_BYTES - share->bytes;
    return own < all ? own : all;
}

bool pending_is_full(const pending_t *self)
{
    return self->full;
}

size_t pending_bytes(const pending_t *self)
{
    return self->bytes;
}

/* Bytes that a batch counts with: its frames and PENDING_OVERHEAD. */
static size_t size_of(zmsg_t *batch)
{
    return zmsg_content_size(batch) + PENDING_OVERHEAD;
}

static share_t *add_share(pending_t *self, const char *id)
{
    share_t *share = memory_new(sizeof(*share), "a share of batches");

    INVARIANT(strlen(id) < sizeof(share->id)); /* two keys would share one list */
    snprintf(share->id, sizeof(share->id), "%s", id);
    share->batches = memory_need(zlistx_new(), "a share of batches");
    zlistx_set_destructor(share->batches, destroy_batch);
    share->turn = zlistx_add_end(self->turns, share);
    zhashx_insert(self->shares, share->id, share);
    return share;
}

void pending_add(pending_t *self, const char *id, int64_t events, zmsg_t **batch_p)
{
    share_t *share = zhashx_lookup(self->shares, id);
    size_t size = size_of(*batch_p);
    waiting_t *batch = memory_new(sizeof(*batch), "a batch that waits");

    *batch = (waiting_t){*batch_p, events};
    *batch_p = NULL;
    if (!share)
        share = add_share(self, id);
    zlistx_add_end(share->batches, batch);
    share->bytes += size;
    self->bytes += size;
    share->full |= share->bytes >= PENDING_KEY_BYTES;
    self->full |= self->bytes > PENDING_BYTES;
}

/* Take the oldest batch of this key; the share is removed with its last batch. */
static waiting_t *take_batch(pending_t *self, share_t *share)
{
    waiting_t *batch = zlistx_detach(share->batches, NULL);
    size_t size = size_of(batch->msg);

    INVARIANT(size <= share->bytes && size <= self->bytes);
    share->bytes -= size;
    share->in_job += size;
    share->events_in_job += batch->events;
    self->bytes -= size;
    if (share->bytes < PENDING_KEY_LITTLE)
        share->full = false;
    if (!zlistx_size(share->batches)) {
        INVARIANT(!share->bytes);
        zhashx_delete(self->shares, share->id);
        zlistx_delete(self->turns, share->turn);
    }
    return batch;
}

/* The key that has the next turn. NULL: none may add to this job any more. shared: other keys have
 * batches waiting too. */
static share_t *next_turn(pending_t *self, bool shared)
{
    for (size_t i = zlistx_size(self->turns); i > 0; i--) {
        share_t *share = zlistx_first(self->turns);

        zlistx_move_end(self->turns, share->turn);
        if (!shared || (share->in_job < JOB_KEY_BYTES && share->events_in_job < JOB_KEY_EVENTS))
            return share;
    }
    return NULL;
}

/* Append the frames of a batch to the job. */
static void move_frames(zmsg_t **job, waiting_t *batch)
{
    void *item = batch;

    if (!*job)
        *job = zmsg_new();
    INVARIANT(*job);
    for (zframe_t *frame; (frame = zmsg_pop(batch->msg));)
        zmsg_append(*job, &frame);
    destroy_batch(&item);
}

zmsg_t *pending_take_job(pending_t *self)
{
    zmsg_t *job = NULL;
    share_t *share = zlistx_first(self->turns);
    bool shared = zlistx_size(self->turns) > 1;
    int64_t events = 0;

    for (; share; share = zlistx_next(self->turns)) {
        share->in_job = 0;
        share->events_in_job = 0;
    }
    for (int n = 0; n < JOB_BATCHES && events < JOB_EVENTS && (share = next_turn(self, shared));
         n++) {
        waiting_t *batch = take_batch(self, share);

        events += batch->events;
        move_frames(&job, batch);
    }
    if (self->bytes < PENDING_KEY_BYTES)
        self->full = false;
    return job;
}

static int64_t count_events(zmsg_t *one, zhashx_t *seen)
{
    char key[sizeof(((batch_t *)0)->producer) + 24];
    zframe_t *header;
    batch_t batch;

    (void)zmsg_first(one); /* skip the identity */
    header = zmsg_next(one);
    if (batch_header(zframe_data(header), zframe_size(header), &batch))
        return 0;
    snprintf(key, sizeof(key), "%s %" PRId64, batch.producer, batch.seq);
    return zhashx_insert(seen, key, seen) == 0 ? batch.count : 0;
}

int64_t pending_events(const pending_t *self)
{
    _cleanup_(zhashx_destroy) zhashx_t *seen = zhashx_new();
    share_t *share = zlistx_first(self->turns);
    int64_t n = 0;

    for (; share; share = zlistx_next(self->turns))
        for (waiting_t *one = zlistx_first(share->batches); one; one = zlistx_next(share->batches))
            n += count_events(one->msg, seen);
    return n;
}
