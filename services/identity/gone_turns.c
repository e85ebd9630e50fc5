#include "services/identity/gone_turns.h"
#include "common/base/invariant.h"

#include <stdbool.h>

/* So large that a turn of each is within the bound. */
static int batch_of(size_t places, int64_t bound)
{
    int64_t each = bound / (int64_t)places;

    return each < 1 ? 1 : each > GONE_BATCH_MAX ? GONE_BATCH_MAX : (int)each;
}

int gone_take_turns(size_t places, int64_t bound, gone_turn_fn *turn, void *context, int64_t *ended)
{
    bool is_over[GONE_PLACES_MAX] = {false}, is_first = true;
    size_t left = places;

    INVARIANT(places <= GONE_PLACES_MAX);
    while (left && (is_first || *ended < bound)) {
        for (size_t i = 0; i < places && (is_first || *ended < bound); i++) {
            int count = 0, most = batch_of(places, bound), r;

            if (is_over[i])
                continue;
            r = turn(context, i, most, &count);
            if (r)
                return r;
            *ended += count;
            is_over[i] = count < most;
            left -= is_over[i];
        }
        is_first = false;
    }
    return 0;
}
