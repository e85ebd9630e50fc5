/* Queue of batches that wait for the database. Batches of one key keep their order, and keys take
 * turns, so that one key delays the others by a transaction or two. Differs from
 * common/bus/shares.h: nothing is refused here, a key that was full has no room until little of its
 * own is left, and a turn is bounded by what one transaction takes of a key. */
#pragma once

#include <czmq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PENDING_BYTES = 64 << 20,     /* of all keys; beyond it producers wait */
    PENDING_KEY_BYTES = 32 << 20, /* of one key */
    /* a key that was full has room again when no more than this is left */
    PENDING_KEY_LITTLE = 4 << 20,
    PENDING_OVERHEAD = 1024, /* added to each batch: its frames, names and places in lists */
    JOB_BATCHES = 256,       /* batches in one transaction */
    /* events that end a transaction, because they all have to be published */
    JOB_EVENTS = 1 << 18,
    /* Bounds for one key in one transaction, while other keys have batches waiting: */
    JOB_KEY_BYTES = 4 << 20, /* the largest batch, or many small ones */
    JOB_KEY_EVENTS = 1 << 14
};

typedef struct pending pending_t;

/* NULL when out of memory. */
pending_t *pending_new(void);
void pending_destroy(pending_t **self_p);

/* Is there room for a batch of this key? Once there was none, for this key or for all together,
 * there is none until little is left: a producer that is told of room sends all that it has
 * again. */
bool pending_has_room(const pending_t *self, const char *id);

/* For how many more bytes of this key there is room. */
size_t pending_room(const pending_t *self, const char *id);

/* Is there no room for any key? */
bool pending_is_full(const pending_t *self);

/* Add a batch [identity][header][body], which is taken over. events: as its header says. */
void pending_add(pending_t *self, const char *id, int64_t events, zmsg_t **batch_p);

/* Take the batches of the next transaction, their frames one behind the other. NULL: nothing
 * waits. */
zmsg_t *pending_take_job(pending_t *self);

/* Bytes that wait, with PENDING_OVERHEAD for each batch. */
size_t pending_bytes(const pending_t *self);

/* Events that wait. A batch that a producer sent twice counts once. */
int64_t pending_events(const pending_t *self);
