#include "services/edge/http/room.h"
#include "common/base/invariant.h"

bool room_take(room_t *self, room_part_t *part, size_t bytes)
{
    size_t *share = &self->shares[part->account % ROOM_ACCOUNTS];

    if (bytes > ROOM_MAX - self->taken || bytes > ROOM_SHARE - *share)
        return false;
    self->taken += bytes;
    *share += bytes;
    part->bytes += bytes;
    return true;
}

void room_give(room_t *self, room_part_t *part)
{
    size_t *share = &self->shares[part->account % ROOM_ACCOUNTS];

    INVARIANT(part->bytes <= *share && *share <= self->taken); /* each part is given back once */
    self->taken -= part->bytes;
    *share -= part->bytes;
    part->bytes = 0;
}
