#include "services/edge/modules/told.h"

#include "common/base/invariant.h"

#include <string.h>

/* Where the number of its place, from 1 on, stands among those that wait; 0 there: it does not. The
 * bytes of a hash are as good as chance. */
static uint16_t *slot_of(told_t *self, const unsigned char *hash)
{
    size_t at = (size_t)(hash[0] << 8 | hash[1]) % TOLD_SLOTS;

    while (self->slots[at]
           && memcmp(self->list[self->slots[at] - 1].hash, hash, SESSION_HASH_BYTES) != 0)
        at = (at + 1) % TOLD_SLOTS;
    return &self->slots[at];
}

bool told_add(told_t *self, const unsigned char *hash, int64_t last_active_ms)
{
    uint16_t *slot = slot_of(self, hash);

    if (!*slot) {
        if (self->count == TOLD_PLACES)
            return false;
        memmove(self->list[self->count].hash, hash, SESSION_HASH_BYTES); /* told_end: its own */
        self->list[self->count].last_active_ms = 0;
        *slot = (uint16_t)++self->count;
    }
    if (self->list[*slot - 1].last_active_ms < last_active_ms)
        self->list[*slot - 1].last_active_ms = last_active_ms;
    return true;
}

void told_send(told_t *self)
{
    INVARIANT(self->sent == 0);
    self->sent = self->count < TOLD_MAX ? self->count : TOLD_MAX;
    memset(self->slots, 0, sizeof(self->slots));
    for (size_t i = self->sent; i < self->count; i++)
        *slot_of(self, self->list[i].hash) = (uint16_t)(i + 1);
}

void told_end(told_t *self, bool arrived)
{
    size_t first = arrived ? self->sent : 0, end = self->count;

    INVARIANT(self->sent <= end);
    self->sent = 0;
    self->count = 0;
    memset(self->slots, 0, sizeof(self->slots));
    for (size_t i = first; i < end; i++) /* those before it are never fewer than are kept */
        told_add(self, self->list[i].hash, self->list[i].last_active_ms);
}
