#include "services/events/sequence.h"

static int64_t add_bounded(int64_t sum, int64_t more)
{
    return sum > BATCH_NUMBER_MAX - more ? BATCH_NUMBER_MAX : sum + more;
}

int sequence_take(sequence_t *self, const batch_t *batch)
{
    /* no overflow: batch_header bounds each below 2^54 */
    int64_t own = batch->count + batch->dropped;
    int64_t before = batch->seq > own ? batch->seq - own : 0;

    if (self->known && batch->seq <= self->last)
        return SEQUENCE_OLD;
    if (self->known && before != self->last && !batch->oldest)
        return SEQUENCE_EARLY;
    /* A producer that is heard for the first time may have lost events that it numbered before. */
    if (before > self->last)
        self->lost = add_bounded(self->lost, before - self->last);
    self->known = true;
    self->last = batch->seq;
    self->events = add_bounded(self->events, batch->count);
    self->dropped = add_bounded(self->dropped, batch->dropped);
    return SEQUENCE_NEW;
}
