#include "services/edge/modules/told.h"

#include "common/base/invariant.h"

#include <string.h>

/* The place of the session from `from` on, up to `end`; end: it has none. */
static size_t place_of(const told_t *self, const unsigned char *hash, size_t from, size_t end)
{
    while (from < end && memcmp(self->list[from].hash, hash, SESSION_HASH_BYTES) != 0)
        from++;
    return from;
}

bool told_add(told_t *self, const unsigned char *hash, int64_t last_active_ms)
{
    size_t at = place_of(self, hash, self->sent, self->count);

    if (at == TOLD_PLACES)
        return false;
    if (at == self->count) {
        memcpy(self->list[at].hash, hash, SESSION_HASH_BYTES);
        self->list[at].last_active_ms = 0;
        self->count++;
    }
    if (self->list[at].last_active_ms < last_active_ms)
        self->list[at].last_active_ms = last_active_ms;
    return true;
}

void told_send(told_t *self)
{
    INVARIANT(self->sent == 0);
    self->sent = self->count < TOLD_MAX ? self->count : TOLD_MAX;
}

void told_end(told_t *self, bool arrived)
{
    size_t first = self->sent, end = self->count;

    INVARIANT(first <= end);
    self->sent = 0;
    self->count = arrived ? 0 : first;
    for (size_t i = first; i < end; i++) /* those before it are never fewer than are kept */
        told_add(self, self->list[i].hash, self->list[i].last_active_ms);
}
