#include "services/edge/http/portion.h"
#include "common/base/invariant.h"

#include <math.h>

/* The smaller x of x = p * (left - x)^2 / all. */
size_t portion_most(size_t all, size_t left, size_t percent)
{
    double p = (double)percent / 100, a = (double)all, l = (double)left;

    return all && percent ? (size_t)((2 * p * l + a - sqrt(a * a + 4 * p * l * a)) / (2 * p)) : 0;
}

static size_t network_percent(size_t percent)
{
    return percent < PORTION_PERCENT_MAX / PORTION_NETWORK ? percent * PORTION_NETWORK
                                                           : PORTION_PERCENT_MAX;
}

bool portion_network_allows(size_t network, size_t client, size_t more, size_t all, size_t left,
                            size_t percent)
{
    size_t wide = network_percent(percent), within = percent * PORTION_WITHIN, most;

    if (!portion_allows(network, more, all, left, wide))
        return false;
    if (within > PORTION_PERCENT_MAX) /* so large that one may have all but all */
        return true;
    most = portion_most(all, left + network, wide);
    return portion_allows(client, more, most, most > network ? most - network : 0, within);
}

bool portion_network_allows_one(size_t network, size_t client, size_t all, size_t left,
                                size_t percent)
{
    return !network
           || (client ? portion_network_allows(network, client, 1, all, left, percent)
                      : portion_allows(network, 1, all, left, network_percent(percent)));
}

/* May the client, and its network, take the amount? */
static bool client_may_take(const portions_t *self, uint32_t client, size_t amount, size_t all,
                            size_t percent)
{
    size_t has = self->clients[client % PORTION_CLIENTS], left = all - self->taken;
    uint32_t network = portion_network(client);

    return portion_allows(has, amount, all, left, percent)
           && (!network
               || portion_network_allows(self->networks[network % PORTION_CLIENTS], has, amount,
                                         all, left, percent));
}

bool portion_take(portions_t *self, portion_t *part, size_t all, size_t percent, uint32_t client,
                  size_t amount)
{
    size_t left = all > self->taken ? all - self->taken : 0;

    if (part->amount)
        return true;
    if (amount > left || (client && !client_may_take(self, client, amount, all, percent)))
        return false;
    self->taken += amount;
    if (client)
        self->clients[client % PORTION_CLIENTS] += amount;
    if (portion_network(client))
        self->networks[portion_network(client) % PORTION_CLIENTS] += amount;
    *part = (portion_t){.amount = amount, .client = client};
    return true;
}

bool portion_charge_account(portions_t *self, portion_t *part, size_t all,
                            const portion_account_t *to)
{
    size_t *has = &self->accounts[to->account % PORTION_ACCOUNTS];
    size_t *theirs = &self->theirs[to->theirs % PORTION_CLIENTS];
    size_t left = all > self->taken ? all - self->taken : 0, most;

    if (part->account || !part->amount)
        return true;
    left += part->amount;
    if (!portion_allows(*has, part->amount, all, left, to->percent))
        return false;
    if (to->theirs) {
        most = portion_most(all, left + *has, to->percent);
        if (!portion_allows(*theirs, part->amount, most, most > *has ? most - *has : 0,
                            to->client_percent))
            return false;
        *theirs += part->amount;
    }
    *has += part->amount;
    part->account = to->account;
    part->theirs = to->theirs;
    return true;
}

void portion_keep(portions_t *self, portion_t *part, size_t amount)
{
    size_t *client = &self->clients[part->client % PORTION_CLIENTS];
    size_t *network = &self->networks[portion_network(part->client) % PORTION_CLIENTS];
    size_t *account = &self->accounts[part->account % PORTION_ACCOUNTS];
    size_t *theirs = &self->theirs[part->theirs % PORTION_CLIENTS];
    size_t less = part->amount > amount ? part->amount - amount : 0;

    INVARIANT(part->amount <= self->taken); /* each part is given back once */
    INVARIANT(!part->client || part->amount <= *client);
    INVARIANT(!portion_network(part->client) || part->amount <= *network);
    INVARIANT(!part->account || part->amount <= *account);
    INVARIANT(!part->theirs || part->amount <= *theirs);
    self->taken -= less;
    if (part->client)
        *client -= less;
    if (portion_network(part->client))
        *network -= less;
    if (part->account)
        *account -= less;
    if (part->theirs)
        *theirs -= less;
    part->amount -= less;
}

void portion_give(portions_t *self, portion_t *part)
{
    portion_keep(self, part, 0);
    *part = (portion_t){0};
}
