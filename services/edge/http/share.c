#include "services/edge/http/share.h"
#include "common/base/address.h"
#include "common/base/invariant.h"

#include <netinet/in.h>
#include <sodium.h>
#include <string.h>

enum {
    V4_BYTES = 4,
    V4_NETWORK_BYTES = 3,
    V6_BYTES = 8, /* a customer's network */
    V6_NETWORK_BYTES = 6,
    HALF_BITS = 16,
    HALF = (1 << HALF_BITS) - 1
};

_Static_assert((int)SHARE_KEY_BYTES == (int)crypto_shorthash_KEYBYTES, "a key is SipHash's");

uint32_t share_hash(const unsigned char key[SHARE_KEY_BYTES], const void *bytes, size_t len,
                    uint32_t account)
{
    unsigned char text[sizeof(account) + SHARE_HASHED_MAX], sum[crypto_shorthash_BYTES];
    uint32_t out;

    len = len < SHARE_HASHED_MAX ? len : SHARE_HASHED_MAX;
    memcpy(text, &account, sizeof(account));
    if (len)
        memcpy(text + sizeof(account), bytes, len);
    crypto_shorthash(sum, text, sizeof(account) + len, key);
    memcpy(&out, sum, sizeof(out));
    return out ? out : 1;
}

static uint32_t client_hash(const unsigned char key[SHARE_KEY_BYTES], const void *address,
                            size_t len, size_t network_len, uint32_t account)
{
    uint32_t network = share_hash(key, address, network_len, account) & HALF;
    uint32_t own = share_hash(key, address, len, account) & HALF;

    return (network ? network : 1) << HALF_BITS | own;
}

uint32_t share_client(const unsigned char key[SHARE_KEY_BYTES], const struct sockaddr *address,
                      uint32_t account)
{
    uint8_t v4[V4_BYTES];
    uint32_t own;

    if (address_v4_of(address, v4))
        return client_hash(key, v4, V4_BYTES, V4_NETWORK_BYTES, account);
    if (address->sa_family == AF_INET6)
        return client_hash(key, &((const struct sockaddr_in6 *)address)->sin6_addr, V6_BYTES,
                           V6_NETWORK_BYTES, account);
    own = share_hash(key, NULL, 0, account) & HALF;
    return own ? own : 1;
}

size_t share_reserve(size_t all)
{
    return all / SHARE_RESERVE;
}

static portion_crowd_t network_of(const share_t *self, uint32_t alone)
{
    size_t at = portion_network(alone) % SHARE_CLIENTS;

    if (!portion_network(alone))
        return (portion_crowd_t){.crowd = self->crowd};
    return (portion_crowd_t){self->networks[at], self->network_crowds[at], self->crowd};
}

/* May the network have one more for the client, which counts as one that has `has`? */
static bool network_allows(const share_t *self, uint32_t alone, size_t has, size_t all, size_t free,
                           size_t percent)
{
    portion_crowd_t network = network_of(self, alone);

    return portion_network_allows_one(network.has, has, all, free, percent)
           || portion_network_allows_few(&network, has, 1, all, free, percent);
}

bool share_allows(const share_t *self, uint32_t alone, size_t all, size_t free, size_t percent)
{
    size_t has = self->alone[alone % SHARE_CLIENTS].has;

    return !alone
           || (portion_allows(has, 1, all, free, percent)
               && network_allows(self, alone, has, all, free, percent));
}

bool share_lets_nobody_in(const share_t *self, uint32_t alone, size_t all, size_t free,
                          size_t percent)
{
    return alone && !self->alone[alone % SHARE_CLIENTS].has
           && !portion_allows(0, 1, all, free, percent);
}

share_whose_t share_enter(share_t *self, uint32_t alone, size_t all)
{
    share_whose_t out = {.alone = alone};

    if (!alone)
        return out;
    out.of_crowd = portion_client_more(&self->alone[alone % SHARE_CLIENTS], &self->crowd, 1, all);
    if (!portion_network(alone))
        return out;
    self->networks[portion_network(alone) % SHARE_CLIENTS]++;
    self->network_crowds[portion_network(alone) % SHARE_CLIENTS] += out.of_crowd;
    return out;
}

void share_leave(share_t *self, const share_whose_t *whose)
{
    size_t network = portion_network(whose->alone) % SHARE_CLIENTS;

    if (!whose->alone)
        return;
    portion_client_less(&self->alone[whose->alone % SHARE_CLIENTS], &self->crowd, 1,
                        whose->of_crowd);
    if (!portion_network(whose->alone))
        return;
    INVARIANT(self->networks[network] > 0 && self->network_crowds[network] >= whose->of_crowd);
    self->networks[network]--;
    self->network_crowds[network] -= whose->of_crowd;
}

bool share_may_ask(const share_t *self, uint32_t alone, size_t all, size_t free, size_t percent)
{
    if (alone && self->alone[alone % SHARE_CLIENTS].has < SHARE_FEW)
        return network_of(self, alone).has < SHARE_FEW
               || network_allows(self, alone, 0, all, free, percent);
    return share_allows(self, alone, all, free, percent);
}

static size_t rest_of(size_t all, size_t part)
{
    return all > part ? all - part : 0;
}

/* How many more an account that has `own` may have. Connections that no request holds are left to
 * it as those are that are free, but of the free ones the last are not: they are for accounts that
 * have not had their fourth. */
static size_t left_of_account(const share_t *self, size_t own, size_t all, size_t free)
{
    size_t kept = all / SHARE_ACCOUNT_FREE, first = rest_of(all / SHARE_ACCOUNT, own), left;

    left = rest_of(all, self->held);
    left = left > free ? left : free; /* a request may have ended with its upstream's connection */
    left = rest_of(left, kept);
    if (free >= kept)
        left++;
    else if (left > rest_of(free, all / SHARE_LAST))
        left = rest_of(free, all / SHARE_LAST);
    return left > first ? left : first;
}

/* May an account, and its client, have one more? */
static bool account_allows(const share_t *self, const share_part_t *part, size_t all, size_t free,
                           size_t percent)
{
    size_t own = self->accounts[part->account % SHARE_ACCOUNTS];
    size_t has = self->clients[part->client % SHARE_CLIENTS];
    size_t left = left_of_account(self, own, all, free), within = percent * SHARE_WITHIN;

    if (free < all / SHARE_ACCOUNT_FREE && own >= all / SHARE_ACCOUNT
        && (!part->client || has >= SHARE_FEW || !left))
        return false;
    if (!part->client)
        return true;
    return (free >= all / SHARE_CLIENT_FREE || has < all / SHARE_CLIENT)
           && (within > PORTION_PERCENT_MAX || portion_allows_one(has, own + left, left, within));
}

/* The first of those that came on a connection holds that, too. */
static void count_held(share_t *self, share_part_t *part)
{
    self->held += 1 + (part->requests && !*part->requests);
    if (part->requests)
        (*part->requests)++;
}

static void uncount_held(share_t *self, share_part_t *part)
{
    INVARIANT(!part->requests || *part->requests > 0);
    if (part->requests)
        (*part->requests)--;
    self->held -= 1 + (part->requests && !*part->requests);
}

bool share_take(share_t *self, share_part_t *part, size_t all, size_t free, size_t percent)
{
    if (part->taken)
        return true;
    if (!account_allows(self, part, all, free, percent)
        || !share_may_ask(self, part->alone, all, free, percent))
        return false;
    part->of_crowd = share_enter(self, part->alone, all).of_crowd;
    self->accounts[part->account % SHARE_ACCOUNTS]++;
    if (part->client)
        self->clients[part->client % SHARE_CLIENTS]++;
    count_held(self, part);
    part->taken = true;
    return true;
}

void share_give(share_t *self, share_part_t *part)
{
    uint32_t *account = &self->accounts[part->account % SHARE_ACCOUNTS];
    uint32_t *client = &self->clients[part->client % SHARE_CLIENTS];

    if (!part->taken)
        return;
    INVARIANT(*account > 0 && (!part->client || *client > 0)); /* each is given back once */
    (*account)--;
    if (part->client)
        (*client)--;
    uncount_held(self, part);
    share_leave(self, &(share_whose_t){part->alone, part->of_crowd});
    part->taken = false;
}
