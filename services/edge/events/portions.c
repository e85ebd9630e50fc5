#include "services/edge/events/portions.h"

#include "common/base/invariant.h"

#include <string.h>

static uint64_t segment_of(const portions_t *self, uint64_t position)
{
    return position / self->segment_bytes;
}

void portions_add(portions_t *self, uint32_t account, size_t bytes)
{
    uint64_t before, now;

    INVARIANT(self->segment_bytes > 0);
    before = segment_of(self, self->written);
    self->written += bytes;
    now = segment_of(self, self->written);
    for (uint64_t i = before + 1; i <= now && i <= before + PORTIONS_ROWS; i++)
        memset(self->bytes[i % PORTIONS_ROWS], 0, sizeof(self->bytes[0]));
    self->bytes[now % PORTIONS_ROWS][account % PORTIONS_ACCOUNTS] += bytes;
}

/* The account's bytes among the last `held` ones. What was kept before this worker began is not
 * counted. */
static uint64_t bytes_of(const portions_t *self, uint32_t account, uint64_t held)
{
    uint64_t last = segment_of(self, self->written), sum = 0,
             first = segment_of(self, self->written > held ? self->written - held : 0);

    if (last - first >= PORTIONS_ROWS)
        first = last - PORTIONS_ROWS + 1;
    for (uint64_t i = first; i <= last; i++)
        sum += self->bytes[i % PORTIONS_ROWS][account % PORTIONS_ACCOUNTS];
    return sum;
}

bool portions_may(const portions_t *self, uint32_t account, uint64_t held, uint64_t all)
{
    uint64_t free = all > held ? all - held : 0;

    return free >= all / PORTION_FREE || bytes_of(self, account, held) <= free;
}
