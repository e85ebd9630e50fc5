/* What of a client counts as a crowd's (services/edge/http/portion.h), whichever of its parts end. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "services/edge/http/portion.h"

enum { ORDINARY = 100, LARGE = 400, MEMORY = 256 << 20, FEW = MEMORY / PORTION_FEW };
enum { REQUEST = 21 << 10, REQUESTS = FEW / REQUEST + 1 }; /* of one client: as much as few */

/* One request of a client at an account, where it has the hash `there`. False: it is refused. */
static bool visit(portions_t *self, portion_t *part, uint32_t client, uint32_t account,
                  uint32_t there)
{
    portion_account_t to = {account, there, LARGE, ORDINARY, false};

    *part = (portion_t){0};
    if (!portion_take(self, part, MEMORY, ORDINARY, client, REQUEST))
        return false;
    if (portion_charge_account(self, part, MEMORY, &to))
        return true;
    portion_give(self, part);
    return false;
}

Test(portion_crowds, a_client_is_of_the_crowd_with_few_whichever_of_its_requests_have_ended)
{
    portions_t *self = calloc(1, sizeof(*self));
    portion_t first[REQUESTS], later[REQUESTS], next;

    for (int i = 0; i < REQUESTS; i++)
        cr_assert(visit(self, &first[i], 3 << 16 | 5, 7, 9));
    for (int i = 0; i < REQUESTS; i++)
        cr_assert(visit(self, &later[i], 3 << 16 | 5, 7, 9));
    cr_assert_eq(self->crowd, FEW);
    for (int i = 0; i < REQUESTS; i++)
        portion_give(self, &first[i]);
    cr_assert_eq(self->crowd, FEW, "%zu", self->crowd);
    cr_assert(visit(self, &next, 3 << 16 | 5, 7, 9));
    cr_assert_eq(self->crowds[7], REQUEST, "its account's own, with the next request");
    cr_assert_eq(self->network_crowds[3], REQUEST);
    for (int i = 0; i < REQUESTS; i++)
        cr_assert(visit(self, &first[i], 3 << 16 | 5, 8, 10));
    cr_assert_eq(self->crowds[7] + self->crowds[8], FEW);
    cr_assert_eq(self->network_crowds[3], FEW);
    cr_assert_eq(self->crowd, FEW);
    free(self);
}

/* ---- two accounts whose clients end what they took first ---- */

/* Clients have hashes of places of their own, which are those at their account, too. */
static uint32_t client_in(uint32_t network, uint32_t place)
{
    return network << 16 | place;
}

/* Takes all of few and as much again, and ends what it took first. */
static void evade(portions_t *self, uint32_t client, uint32_t account)
{
    portion_t first[REQUESTS], later;
    int count = 0;

    while (count < REQUESTS && visit(self, &first[count], client, account, client))
        count++;
    for (int i = 0; i < count && count == REQUESTS && i <= REQUESTS; i++)
        if (!visit(self, &later, client, account, client))
            break;
    for (int i = 0; i < count && count == REQUESTS; i++)
        portion_give(self, &first[i]);
}

/* How many new visitors the account has, of as many networks as need be. */
static size_t new_visitors(const portions_t *before, uint32_t account, uint32_t place)
{
    portions_t *self = malloc(sizeof(*self));
    portion_t part;
    size_t count = 0;

    *self = *before;
    while (visit(self, &part, client_in(7000 + (uint32_t)count / 20, place + (uint32_t)count),
                 account, client_in(1, place + (uint32_t)count)))
        count++;
    free(self);
    return count;
}

Test(portion_crowds, who_ends_what_it_took_first_is_one_of_the_crowd_and_denies_nobody)
{
    enum { BUSY = 1500, EACH = 900, MANY_BYTES = 78 << 20 };
    portions_t *self = calloc(1, sizeof(*self));
    portion_t part;
    uint32_t place = 1;

    for (uint32_t i = 0; i < BUSY; i++, place++)
        cr_assert(visit(self, &part, client_in(1 + i / 200, place), 1, place));
    for (uint32_t i = 0; i < 2 * EACH; i++, place++)
        evade(self, client_in(100 + i / 2, place), 2 + i % 2);
    for (uint32_t i = 0; i < 2 * EACH; i++, place++)
        for (int more = 0; more < 5; more++)
            visit(self, &part, client_in(2000 + i, place), 2 + i % 2, place);
    cr_assert_leq(self->accounts[2], MANY_BYTES, "%zu", self->accounts[2]);
    cr_assert_leq(self->accounts[3], MANY_BYTES, "%zu", self->accounts[3]);
    cr_assert_geq(MEMORY - self->taken, 71 << 20, "%zu", self->taken);
    cr_assert_geq(new_visitors(self, 1, place), 780, "%zu", new_visitors(self, 1, place));
    cr_assert_geq(new_visitors(self, 4, place), 1380, "%zu", new_visitors(self, 4, place));
    free(self);
}

/* ---- a long history beside a plain count ---- */

enum { ALL = 300000, SOME = ALL / PORTION_FEW, PARTS = 300, STEPS = 10000, PLACES = 16 };

typedef struct {
    size_t has[PLACES], own[PLACES];
} counted_t;

/* The same by a look at each part. */
typedef struct {
    size_t taken, nobody;
    counted_t clients, networks, accounts;
    size_t theirs[PLACES];
} plain_t;

static void count_one(counted_t *of, size_t at, const portion_t *part)
{
    of->has[at] += part->amount;
    of->own[at] += part->crowd;
}

static plain_t count_all(const portion_t *parts)
{
    plain_t out = {0};

    for (const portion_t *part = parts; part < parts + PARTS; part++) {
        out.taken += part->amount;
        if (part->client)
            count_one(&out.clients, part->client % PLACES, part);
        else
            out.nobody += part->amount;
        if (portion_network(part->client))
            count_one(&out.networks, portion_network(part->client) % PLACES, part);
        if (part->account)
            count_one(&out.accounts, part->account % PLACES, part);
        if (part->theirs)
            out.theirs[part->theirs % PLACES] += part->amount;
    }
    return out;
}

static void compare(const portions_t *self, const portion_t *parts)
{
    plain_t plain = count_all(parts);
    size_t crowd = plain.nobody;

    for (size_t i = 0; i < PLACES; i++) {
        const portion_client_t *client = &self->clients[i];
        size_t few = plain.clients.has[i] < SOME ? plain.clients.has[i] : SOME;

        crowd += few;
        cr_assert_eq(client->has, plain.clients.has[i]);
        cr_assert_eq(client->crowd, few);
        cr_assert_eq(client->own, plain.clients.own[i]);
        cr_assert_leq(client->own, few);
        cr_assert_eq(self->networks[i], plain.networks.has[i]);
        cr_assert_eq(self->network_crowds[i], plain.networks.own[i]);
        cr_assert_eq(self->accounts[i], plain.accounts.has[i]);
        cr_assert_eq(self->crowds[i], plain.accounts.own[i]);
        cr_assert_eq(self->theirs[i], plain.theirs[i]);
    }
    cr_assert_eq(self->taken, plain.taken);
    cr_assert_eq(self->crowd, crowd, "%zu instead of %zu", self->crowd, crowd);
}

/* The same numbers each time. */
static uint32_t any_below(uint32_t bound)
{
    static uint64_t state = 1;

    state = state * 6364136223846793005U + 1442695040888963407U;
    return (uint32_t)(state >> 33) % bound;
}

/* Clients of several networks and accounts have one place, some are of no network, and some parts
 * are nobody's, or of one who speaks for many. */
static void take_any(portions_t *self, portion_t *part)
{
    uint32_t client =
        any_below(6) * 65536 + (1 + any_below(3)) * PORTION_CLIENTS + 1 + any_below(PLACES - 1);
    bool of_many = any_below(12) == 0;
    portion_account_t to = {any_below(3) * PORTION_ACCOUNTS + any_below(PLACES),
                            of_many ? 0 : 1 + any_below(PLACES - 1), LARGE, LARGE, false};
    size_t amount = 1 + any_below(SOME * 5 / 4), own;

    client = of_many ? 0 : client;
    own = self->clients[client % PORTION_CLIENTS].own;
    if (!portion_take(self, part, ALL, LARGE, client, amount))
        return;
    own = client && SOME - own < amount ? SOME - own : amount;
    cr_assert_eq(part->crowd, own, "as much of few as no other part carries");
    portion_charge_account(self, part, ALL, &to);
}

Test(portion_crowds, a_long_history_counts_what_a_look_at_each_part_counts)
{
    portions_t *self = calloc(1, sizeof(*self));
    portion_t *parts = calloc(PARTS, sizeof(*parts));

    for (int step = 0; step < STEPS; step++) {
        portion_t *part = &parts[any_below(PARTS)];

        if (!part->amount)
            take_any(self, part);
        else if (any_below(4))
            portion_give(self, part);
        else
            portion_keep(self, part, any_below((uint32_t)part->amount + 1));
        compare(self, parts);
    }
    for (int i = 0; i < PARTS; i++)
        portion_give(self, &parts[i]);
    compare(self, parts);
    cr_assert_eq(self->taken + self->crowd, 0);
    free(parts);
    free(self);
}
