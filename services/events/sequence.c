#include "services/events/sequence.h"

int sequence_take(sequence_t *self, const batch_t *batch)
{
    int64_t before = batch->seq - batch->count - batch->dropped;

    if (self->known && batch->seq <= self->last)
        return SEQUENCE_OLD;
    if (self->known && before != self->last && !batch->oldest)
        return SEQUENCE_EARLY;
    /* A producer that is heard for the first time may have lost what it numbered before. */
    if (before > self->last)
        self->lost += before - self->last;
    self->known = true;
    self->last = batch->seq;
    self->events += batch->count;
    self->dropped += batch->dropped;
    return SEQUENCE_NEW;
}
