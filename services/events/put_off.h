/* Producers whose batches there was no room for. They keep them, and are told when there is room:
 * so many at a time as there is room for what they were seen to have, because whoever is told sends
 * all that it has again. */
#pragma once

#include "services/events/batch.h"
#include "services/events/pending.h"

enum {
    PUT_OFF_MAX = 1024,    /* connections remembered, dead ones too */
    PUT_OFF_OF_KEY = 128,  /* of them those of one key: what one takes, others have */
    PUT_OFF_TOLD_MS = 1000 /* after it was told a producer is waited for as long */
};

typedef struct put_off put_off_t;

/* NULL when out of memory. */
put_off_t *put_off_new(void);
void put_off_destroy(put_off_t **self_p);

/* A batch came over this connection with the key of this id, and would take so many bytes. Is it
 * put off? So are those behind it, until the connection was told and the first that is missing has
 * come: stored before that one they would be early. */
bool put_off_batch(put_off_t *self, const pending_t *pending, zframe_t *identity, const char *id,
                   const batch_t *batch, size_t bytes, int64_t now_ms);

/* Who is to be told now that there is room, longest waiting first; borrowed. NULL: nobody. */
zframe_t *put_off_tell(put_off_t *self, const pending_t *pending, int64_t now_ms);
