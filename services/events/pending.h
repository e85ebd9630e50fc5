/* Batches that wait for the database: those of each key in the order in which they came, and keys by turns, so that what one of
 * them sends delays the others by a job or two. */
#pragma once

#include <czmq.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PENDING_BYTES = 64 << 20,     /* of all keys; then producers wait */
    PENDING_KEY_BYTES = 32 << 20, /* of one key */
    PENDING_KEY_LITTLE = 4 << 20, /* left: a key that was full has room again */
    PENDING_OVERHEAD = 1024, /* of a batch that waits: its frames, its names, its places in lists */
    JOB_BATCHES = 256,       /* in one transaction */
    JOB_EVENTS = 1 << 18,    /* events that end it: small ones have as much to publish as others */
    /* And of one key, when others have something too: */
    JOB_KEY_BYTES = 4 << 20, /* the largest batch, or many */
    JOB_KEY_EVENTS = 1 << 14
};

typedef struct pending pending_t;

/* NULL when out of memory. */
pending_t *pending_new(void);
void pending_destroy(pending_t **self_p);

/* Is there room for a batch that came with this key? Once there was none, of all keys together or of
 * this one, there is none until little is left: who is told of room sends all that it has again. */
bool pending_has_room(const pending_t *self, const char *id);

/* For how many bytes of this key there is room. */
size_t pending_room(const pending_t *self, const char *id);

/* Is there none for anybody? */
bool pending_is_full(const pending_t *self);

/* Add [identity][header][body], which is taken, of the key with this id. events: by its header. */
void pending_add(pending_t *self, const char *id, int64_t events, zmsg_t **batch_p);

/* Take what is stored in one transaction: the frames of its batches one behind the other. NULL: nothing waits. */
zmsg_t *pending_take_job(pending_t *self);

/* What waits, with what it takes beside its bytes. */
size_t pending_bytes(const pending_t *self);

/* The events that wait. Producers that wait for an answer may have sent a batch again, and it counts once. */
int64_t pending_events(const pending_t *self);
