/* Producers whose batches there was no room for. They keep them, and are told when there is room:
 * as many at a time as there is room for what they were seen to have, because a producer that is
 * told sends all of it again. */
#pragma once

#include "services/events/batch.h"
#include "services/events/pending.h"

enum {
    PUT_OFF_MAX = 1024,    /* connections remembered, those that ended too */
    PUT_OFF_OF_KEY = 128,  /* of them, connections of one key, so that others find room */
    PUT_OFF_TOLD_MS = 1000 /* how long a producer that was told is waited for */
};

typedef struct put_off put_off_t;

/* NULL when out of memory. */
put_off_t *put_off_new(void);
void put_off_destroy(put_off_t **self_p);

/* Is this batch put off? A batch of so many bytes came over this connection, with the key of this
 * id. Batches behind one that was put off are put off too, until the connection was told and the
 * first missing one has come: before that one they would be early. */
bool put_off_batch(put_off_t *self, const pending_t *pending, zframe_t *identity, const char *id,
                   const batch_t *batch, size_t bytes, int64_t now_ms);

/* The connection that is to be told now that there is room, the longest waiting first; borrowed.
 * NULL: none. */
zframe_t *put_off_tell(put_off_t *self, const pending_t *pending, int64_t now_ms);
