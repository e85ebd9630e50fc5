#include "services/edge/http/slots.h"
#include "services/edge/http/portion.h"
#include "common/base/invariant.h"

enum { OF_MANY = 2 }; /* a part of all */

static uint16_t *client_slots(slots_t *self, uint32_t client)
{
    return &self->clients[client % SLOTS_CLIENTS];
}

/* NULL: the client is of no network. */
static uint16_t *network_slots(slots_t *self, uint32_t client)
{
    uint32_t network = portion_network(client);

    return network ? &self->networks[network % SLOTS_CLIENTS] : NULL;
}

static bool client_may_take(slots_t *self, uint32_t client, size_t all, size_t left, size_t percent)
{
    size_t has = *client_slots(self, client);
    const uint16_t *network = network_slots(self, client);

    return portion_allows_one(has, all, left, percent)
           && (!network || portion_network_allows_one(*network, has, all, left, percent));
}

bool slots_take(slots_t *self, slots_part_t *part, size_t all, size_t percent, uint32_t client)
{
    size_t left = all > self->taken ? all - self->taken : 0;

    INVARIANT(all <= SLOTS_MAX);
    if (part->taken)
        return true;
    if (!left
        || !(client ? client_may_take(self, client, all, left, percent)
                    : self->of_many < all / OF_MANY))
        return false;
    self->taken++;
    if (!client)
        self->of_many++;
    else
        ++*client_slots(self, client);
    if (network_slots(self, client))
        ++*network_slots(self, client);
    *part = (slots_part_t){.client = client, .taken = true};
    return true;
}

void slots_give(slots_t *self, slots_part_t *part)
{
    uint16_t *own = client_slots(self, part->client);
    uint16_t *network = network_slots(self, part->client);

    if (!part->taken)
        return;
    INVARIANT(self->taken > 0); /* each part is given back once */
    INVARIANT(part->client ? *own > 0 : self->of_many > 0);
    INVARIANT(!network || *network > 0);
    self->taken--;
    if (part->client)
        --*own;
    else
        self->of_many--;
    if (network)
        --*network;
    *part = (slots_part_t){0};
}
