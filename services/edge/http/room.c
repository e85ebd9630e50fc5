#include "services/edge/http/room.h"
#include "common/base/invariant.h"

_Static_assert((ROOM_SHARE - ROOM_BODY) / 1024LL * (ROOM_SHARE - ROOM_BODY) / ROOM_SHARE
                       * ROOM_PERCENT_LEAST / 100
                   > ROOM_BODY / 1024,
               "a body fits, though nobody has any");

static size_t percent_of(const room_part_t *part)
{
    return part->percent > ROOM_PERCENT_LEAST ? part->percent : ROOM_PERCENT_LEAST;
}

static bool client_has(const room_t *self, const room_part_t *part, size_t bytes)
{
    size_t has = self->client_shares[part->client % ROOM_CLIENTS];

    return !part->client
           || (bytes <= ROOM_CLIENT_SHARE - has
               && portion_allows(has, bytes, ROOM_SHARE,
                                 ROOM_SHARE - self->shares[part->account % ROOM_ACCOUNTS],
                                 percent_of(part)));
}

static bool network_has(const room_t *self, const room_part_t *part, size_t bytes)
{
    size_t has = self->alone[part->alone % ROOM_CLIENTS].has, left = ROOM_MAX - self->taken;
    size_t at = portion_network(part->alone) % ROOM_CLIENTS;
    portion_crowd_t network = {self->networks[at], self->network_crowds[at], self->crowd};

    return portion_network_allows(network.has, has, bytes, ROOM_MAX, left, percent_of(part))
           || portion_network_allows_few(&network, has, bytes, ROOM_MAX, left, percent_of(part));
}

static bool has_portion(const room_t *self, const room_part_t *part, size_t bytes)
{
    size_t has = self->alone[part->alone % ROOM_CLIENTS].has, left = ROOM_MAX - self->taken;

    return !part->alone
           || (portion_allows(has, bytes, ROOM_MAX, left, percent_of(part))
               && (!portion_network(part->alone) || network_has(self, part, bytes)));
}

/* The client, and its network, have so much more. */
static void add_to_client(room_t *self, room_part_t *part, size_t bytes)
{
    portion_client_t *client = &self->alone[part->alone % ROOM_CLIENTS];
    size_t crowd = portion_client_more(client, &self->crowd, bytes, ROOM_MAX);

    part->crowd += crowd;
    if (!portion_network(part->alone))
        return;
    self->networks[portion_network(part->alone) % ROOM_CLIENTS] += bytes;
    self->network_crowds[portion_network(part->alone) % ROOM_CLIENTS] += crowd;
}

bool room_take(room_t *self, room_part_t *part, size_t bytes)
{
    size_t *share = &self->shares[part->account % ROOM_ACCOUNTS];

    if (bytes > ROOM_MAX - self->taken || bytes > ROOM_SHARE - *share
        || !client_has(self, part, bytes) || !has_portion(self, part, bytes))
        return false;
    self->taken += bytes;
    *share += bytes;
    if (part->client)
        self->client_shares[part->client % ROOM_CLIENTS] += bytes;
    if (part->alone)
        add_to_client(self, part, bytes);
    part->bytes += bytes;
    return true;
}

void room_give(room_t *self, room_part_t *part)
{
    size_t *share = &self->shares[part->account % ROOM_ACCOUNTS];
    size_t *client = &self->client_shares[part->client % ROOM_CLIENTS];
    portion_client_t *alone = &self->alone[part->alone % ROOM_CLIENTS];
    size_t *network = &self->networks[portion_network(part->alone) % ROOM_CLIENTS];
    size_t *crowd = &self->network_crowds[portion_network(part->alone) % ROOM_CLIENTS];

    INVARIANT(part->bytes <= *share && *share <= self->taken); /* each part is given back once */
    INVARIANT(!part->client || part->bytes <= *client);
    INVARIANT(!portion_network(part->alone) || (part->bytes <= *network && part->crowd <= *crowd));
    self->taken -= part->bytes;
    *share -= part->bytes;
    if (part->client)
        *client -= part->bytes;
    if (part->alone)
        portion_client_less(alone, &self->crowd, part->bytes, part->crowd);
    if (portion_network(part->alone)) {
        *network -= part->bytes;
        *crowd -= part->crowd;
    }
    part->bytes = 0;
    part->crowd = 0;
}
