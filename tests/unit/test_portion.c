#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>

#include "services/edge/http/portion.h"

enum { ALL = 300000, ORDINARY = 100, LARGE = 400 };

static portions_t *nobody(void)
{
    portions_t *self = calloc(1, sizeof(*self));

    cr_assert(self);
    return self;
}

/* Takes 1 again and again: how many did the client get? */
static size_t take_all(portions_t *self, size_t percent, uint32_t client)
{
    size_t before = self->taken;
    portion_t part = {0};

    while (portion_take(self, &part, ALL, percent, client, 1))
        part = (portion_t){0};
    return self->taken - before;
}

/* Of all, in thousandths. */
static size_t part_of(size_t amount)
{
    return amount * 1000 / ALL;
}

Test(portion, one_client_alone_leaves_more_than_half)
{
    portions_t *self = nobody();

    cr_assert_eq(part_of(take_all(self, ORDINARY, 1)), 381);
    cr_assert_eq(take_all(self, ORDINARY, 1), 0, "the same one again");
    cr_assert_eq(part_of(take_all(self, ORDINARY, 2)), 186, "another one");
    free(self);
}

Test(portion, however_many_take_all_they_can_get_something_is_left_for_the_next_one)
{
    portions_t *self = nobody();

    for (uint32_t client = 1; client <= 400; client++) {
        cr_assert_gt(take_all(self, ORDINARY, client), 0, "client %u", client);
        cr_assert_gt(ALL - self->taken, ALL / (client + 2), "client %u", client);
    }
    free(self);
}

Test(portion, of_two_that_take_at_once_each_has_a_fourth)
{
    portions_t *self = nobody();
    portion_t part;
    size_t before = 1;

    while (before != self->taken) {
        before = self->taken;
        for (uint32_t client = 1; client <= 2; client++) {
            part = (portion_t){0};
            portion_take(self, &part, ALL, ORDINARY, client, 1);
        }
    }
    cr_assert_eq(part_of(self->clients[1].has), 250, "%zu", self->clients[1].has);
    cr_assert_eq(part_of(self->clients[2].has), 250, "%zu", self->clients[2].has);
    free(self);
}

Test(portion, an_account_of_many_clients_has_a_portion_of_its_own)
{
    portions_t *self = nobody();
    portion_t part = {0};
    uint32_t client = 0;

    for (;;) {
        part = (portion_t){0};
        cr_assert(portion_take(self, &part, ALL, ORDINARY, ++client, 10));
        if (!portion_charge_account(self, &part, ALL,
                                    &(portion_account_t){.account = 7, .percent = LARGE}))
            break;
    }
    cr_assert_eq(part_of(self->accounts[7]), 609);
    cr_assert(portion_charge_account(self, &part, ALL,
                                     &(portion_account_t){.account = 8, .percent = LARGE}),
              "another account");
    free(self);
}

/* Clients from `client` on that take all they can get of one account, tenths of a percent at a
 * time. How many parts they took. */
static size_t take_of_account(portions_t *self, portion_t *parts, uint32_t first, uint32_t last,
                              uint32_t account)
{
    size_t count = 0;

    for (uint32_t client = first; client <= last; client++)
        for (bool more = true; more; count += more) {
            portion_account_t to = {account, client, LARGE, ORDINARY, false};

            parts[count] = (portion_t){0};
            more = portion_take(self, &parts[count], ALL, ORDINARY, client, ALL / 1000);
            if (more && !portion_charge_account(self, &parts[count], ALL, &to)) {
                portion_give(self, &parts[count]);
                more = false;
            }
        }
    return count;
}

Test(portion, clients_of_one_account_leave_some_of_it_to_the_next_one)
{
    portions_t *self = nobody();
    portion_t *parts = calloc(ALL, sizeof(*parts));
    size_t count = take_of_account(self, parts, 1, 3, 7), next;

    cr_assert_geq(part_of(self->theirs[1]), 220, "%zu", self->theirs[1]);
    next = take_of_account(self, parts + count, 4, 4, 7);
    cr_assert_gt(next, 10, "%zu of %zu are taken", next, self->accounts[7]);
    count += next;
    next = take_of_account(self, parts + count, 5, 5, 8);
    cr_assert_gt(next, 50, "another account's");
    count += next;
    while (count)
        portion_give(self, &parts[--count]);
    cr_assert_eq(self->taken + self->accounts[7] + self->accounts[8] + self->crowd, 0);
    cr_assert_eq(self->crowds[7] + self->crowds[8], 0);
    for (int i = 1; i <= 5; i++)
        cr_assert_eq(self->theirs[i] + self->clients[i].has, 0);
    free(parts);
    free(self);
}

/* ---- accounts that are busy ---- */

enum { MEMORY = 256 << 20, REQUEST = 20 << 10, STALLED = 512 << 10 };

/* One request more of a client at an account. */
static bool visit_with(portions_t *self, size_t all, size_t amount, uint32_t account,
                       uint32_t client)
{
    portion_t part = {0};
    portion_account_t to = {account, client, LARGE, ORDINARY, false};

    if (!portion_take(self, &part, all, ORDINARY, client, amount))
        return false;
    if (portion_charge_account(self, &part, all, &to))
        return true;
    portion_give(self, &part);
    return false;
}

static bool visit(portions_t *self, uint32_t account, uint32_t client)
{
    return visit_with(self, MEMORY, REQUEST, account, client);
}

/* A fourth of all memory is one account's, a request of each of its visitors. Few clients, each of
 * a network of its own, take what they can get at other accounts, until less than a fourth is
 * left. */
static portions_t *busy_account(void)
{
    portions_t *self = nobody();

    for (uint32_t client = 1; client <= MEMORY / 4 / REQUEST + 1; client++)
        cr_assert(visit(self, 7, client), "%u", client);
    for (uint32_t greedy = 1; greedy <= 5; greedy++)
        while (MEMORY - self->taken >= MEMORY / 4
               && visit_with(self, MEMORY, STALLED, 10 + greedy, greedy << 16 | (7000 + greedy)))
            ;
    cr_assert_lt(MEMORY - self->taken, MEMORY / 4, "%zu are taken", self->taken);
    cr_assert_gt(MEMORY - self->taken, MEMORY / 5, "%zu are taken", self->taken);
    return self;
}

Test(portion, who_has_much_at_other_accounts_denies_no_busy_account_to_new_clients)
{
    portions_t *self = busy_account();
    size_t served = 0;

    for (uint32_t client = 4000; visit(self, 7, client); client++)
        served++;
    cr_assert_gt(served, 2000, "%zu", served);
    cr_assert_geq(MEMORY - self->taken, MEMORY / PORTION_LAST, "%zu are taken", self->taken);
    cr_assert_leq(self->accounts[7], portion_most(MEMORY, MEMORY, LARGE), "what it had alone");
    cr_assert(visit(self, 8, 6900), "another account");
    cr_assert(visit(self, 8, 6900), "once more");
    free(self);
}

Test(portion, what_is_of_what_is_left_is_denied_to_an_account_whoever_has_the_rest)
{
    portions_t *self = busy_account();
    portion_t part = {0};
    portion_account_t to = {7, 4000, LARGE, ORDINARY, .of_left = true};

    cr_assert(portion_take(self, &part, MEMORY, ORDINARY, 4000, REQUEST));
    cr_assert_not(portion_charge_account(self, &part, MEMORY, &to));
    to.of_left = false;
    cr_assert(portion_charge_account(self, &part, MEMORY, &to));
    free(self);
}

/* As many clients of an account as it can have, with a little each. */
static size_t crowd_at(portions_t *self, uint32_t account, uint32_t client)
{
    while (visit_with(self, ALL, ALL / 3000, account, client))
        client++;
    return part_of(self->accounts[account]);
}

Test(portion, crowds_at_two_accounts_leave_to_a_third_what_they_always_did)
{
    portions_t *self = nobody();
    size_t one = crowd_at(self, 7, 1);

    cr_assert(one > 590 && one < 610, "%zu", one);
    cr_assert_eq(crowd_at(self, 7, 2500), one, "others of the same");
    cr_assert_leq(crowd_at(self, 8, 3000), 180);
    cr_assert_geq(crowd_at(self, 9, 4000), 60);
    cr_assert_gt(ALL - self->taken, ALL / 14);
    free(self);
}

Test(portion, what_few_take_at_an_account_takes_nothing_from_a_crowd_at_another)
{
    portions_t *self = nobody();

    for (uint32_t client = 1; part_of(self->accounts[8]) < 250; client++)
        cr_assert(visit_with(self, ALL, ALL / 3000, 8, client));
    for (uint32_t greedy = 1; greedy <= 12; greedy++)
        while (visit_with(self, ALL, ALL / 300, 7, greedy << 16 | (7000 + greedy)))
            ;
    cr_assert_leq(part_of(self->accounts[7]), 450, "%zu", part_of(self->accounts[7]));
    cr_assert_geq(part_of(self->accounts[7]), 350, "%zu", part_of(self->accounts[7]));
    free(self);
}

Test(portion, however_many_take_all_of_busy_accounts_something_is_left_for_the_next_one)
{
    portions_t *self = nobody();
    portion_t *parts = calloc(ALL, sizeof(*parts));
    size_t count = 0;

    for (uint32_t client = 1; client <= 60; client++) {
        count += take_of_account(self, parts + count, client, client, 7 + client % 3);
        cr_assert_gt(ALL - self->taken, ALL / (client + 2), "client %u", client);
    }
    cr_assert(visit_with(self, ALL, 1, 20, 998), "of another account");
    free(parts);
    free(self);
}

/* ---- networks ---- */

/* A client's hash in a network. */
static uint32_t client_in(uint32_t network, uint32_t client)
{
    return network << 16 | (network * 100 + client);
}

/* Of who has so much of what, and for what each one comes. */
struct busy_case {
    char what[24];
    size_t all, each, large;
};

static bool take_one(portions_t *self, size_t all, uint32_t client, size_t amount)
{
    portion_t part = {0};

    return portion_take(self, &part, all, ORDINARY, client, amount);
}

/* Clients of network 1, with little each, have so many percent of all. */
static portions_t *busy_network(const struct busy_case *of, size_t percent)
{
    portions_t *self = nobody();

    for (uint32_t i = 0; self->taken < of->all / 100 * percent; i++)
        cr_assert(take_one(self, of->all, 1 << 16 | i % 7900, of->each), "%s", of->what);
    return self;
}

/* Clients of other networks, four of each, take what they can get, until less than so much is left;
 * after each the next client of network 1, which has nothing, is served. */
static void take_much(portions_t *self, const struct busy_case *of, size_t until)
{
    for (uint32_t i = 0; i < 100; i++)
        for (int large = 1; large >= 0; large--) {
            uint32_t client = (2 + i / 4) << 16 | (8000 + i);

            while (take_one(self, of->all, client, large ? of->large : of->each)) {
                portion_t next = {0};

                if (of->all - self->taken < until + of->each)
                    return;
                cr_assert(portion_take(self, &next, of->all, ORDINARY, 1 << 16 | 7999, of->each),
                          "%s: %zu clients in %zu networks, %zu of %zu left", of->what, (size_t)i,
                          (size_t)(1 + i / 4), of->all - self->taken, of->all);
                portion_give(self, &next);
            }
        }
}

ParameterizedTestParameters(portion, busy_network)
{
    static struct busy_case cases[] = {
        {"memory", 256 << 20, 21000, 512 << 10},
        {"memory, little of it", 16 << 20, 21000, 128 << 10},
        {"loans", 64 << 20, 64 << 10, 64 << 10},
        {"encoders", 320 << 20, 832 << 10, 832 << 10},
        {"encoders, brotli", 320 << 20, 3136 << 10, 3136 << 10},
    };

    return cr_make_param_array(struct busy_case, cases, sizeof(cases) / sizeof(cases[0]));
}

/* A carrier's, an office's, or that of a service that sends webhooks. */
ParameterizedTest(struct busy_case *of, portion, busy_network)
{
    static const size_t percents[] = {5, 10, 20};

    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        portions_t *self = busy_network(of, percents[i]);
        uint32_t next = 0;

        take_much(self, of, of->all / 9);
        while (take_one(self, of->all, 1 << 16 | next, of->each))
            next++;
        cr_assert_geq(of->all - self->taken, of->all / 32 * 3 - of->each, "%zu", self->taken);
        free(self);
    }
}

Test(portion, a_network_of_many_with_little_each_leaves_to_others_what_busy_accounts_need)
{
    portions_t *self = busy_account();
    size_t before = self->taken, served = 0;

    while (take_one(self, MEMORY, 100 << 16 | 7950, REQUEST))
        ;
    for (uint32_t i = 0; i < 65536; i++)
        take_one(self, MEMORY, 101 << 16 | i, REQUEST);
    cr_assert_gt(self->taken, before);
    cr_assert_geq(MEMORY - self->taken, MEMORY / 32 * 3, "%zu", self->taken);
    for (uint32_t i = 0; i < 300; i++)
        served += visit(self, 7, (200 + i) << 16 | (4000 + i));
    cr_assert_eq(served, 300, "new visitors of an account that is busy: %zu", served);
    free(self);
}

Test(portion, a_network_of_many_with_little_each_has_no_more_than_it_would_have_alone)
{
    portions_t *self = nobody();

    for (uint32_t round = 0; round < 4; round++)
        for (uint32_t i = 0; i < 65536; i++)
            take_one(self, MEMORY, 1 << 16 | i, REQUEST);
    cr_assert_leq(self->networks[1], portion_most(MEMORY, MEMORY, LARGE));
    cr_assert_gt(self->networks[1], portion_most(MEMORY, MEMORY, LARGE) / 100 * 99);
    for (uint32_t i = 0; i < 65536; i++)
        take_one(self, MEMORY, 2 << 16 | i, REQUEST);
    cr_assert_leq(self->networks[2], MEMORY / 100 * 19, "beside one crowd: %zu", self->networks[2]);
    free(self);
}

/* Few of a network's clients have much, and all others little, or the other way round. */
static void take_all_of(portions_t *self, uint32_t network, bool large_first)
{
    for (uint32_t i = 0; i < 8000; i++)
        while (take_one(self, MEMORY, network << 16 | i, large_first ? STALLED : REQUEST)
               && large_first)
            ;
    for (uint32_t i = 0; i < 65536; i++)
        take_one(self, MEMORY, network << 16 | i, REQUEST);
}

Test(portion, four_networks_that_take_all_leave_what_new_visitors_of_busy_accounts_need)
{
    for (unsigned large = 0; large < 1 << 4; large++) {
        portions_t *self = nobody();

        for (uint32_t network = 1; network <= 4; network++)
            take_all_of(self, network, large >> (network - 1) & 1);
        cr_assert_gt(MEMORY - self->taken, MEMORY / PORTION_LAST, "%x: %zu", large, self->taken);
        free(self);
    }
}

/* Clients and accounts are found by hashes: those of several networks and accounts have one
 * place. */
Test(portion, crowds_are_none_once_all_is_given_back_whoever_shared_a_place)
{
    enum { PARTS = 400 };
    portions_t *self = nobody();
    portion_t *parts = calloc(PARTS, sizeof(*parts));

    for (uint32_t i = 0; i < PARTS; i++) {
        uint32_t theirs = 1 + i % 3, client = (1 + i % 7) << 16 | (1 + i % 2);
        portion_account_t to = {1 + i % 5, theirs, LARGE, LARGE, false};

        cr_assert(portion_take(self, &parts[i], ALL, LARGE, client, 100 + i));
        portion_charge_account(self, &parts[i], ALL, &to);
        portion_keep(self, &parts[i * 7 % (i + 1)], 150);
    }
    for (uint32_t i = 0; i < PARTS; i++)
        portion_give(self, &parts[i * 3 % PARTS]);
    cr_assert_eq(self->taken + self->crowd, 0);
    for (uint32_t i = 0; i < 10; i++)
        cr_assert_eq(self->crowds[i] + self->network_crowds[i] + self->networks[i], 0, "%u", i);
    free(parts);
    free(self);
}

Test(portion, clients_of_one_network_leave_some_to_others_and_to_the_next_one_of_it)
{
    portions_t *self = nobody();

    cr_assert_eq(part_of(take_all(self, ORDINARY, client_in(1, 1))), 381, "one alone, as ever");
    for (uint32_t client = 2; client <= 64; client++)
        cr_assert_gt(take_all(self, ORDINARY, client_in(1, client)), 0, "%u", client);
    cr_assert_leq(part_of(self->taken), 610);
    cr_assert_gt(take_all(self, ORDINARY, client_in(1, 65)), 0, "the next one of it");
    cr_assert_gt(part_of(take_all(self, ORDINARY, client_in(2, 1))), 80);
    cr_assert_gt(part_of(take_all(self, ORDINARY, client_in(3, 1))), 50);
    free(self);
}

Test(portion, many_networks_of_many_clients_leave_some_to_the_next_one)
{
    portions_t *self = nobody();

    for (uint32_t network = 1; network <= 16; network++) {
        for (uint32_t client = 1; client <= 16; client++)
            take_all(self, ORDINARY, client_in(network, client));
        cr_assert_gt(ALL - self->taken, ALL / (4 * network + 2), "%u", network);
    }
    cr_assert_gt(take_all(self, ORDINARY, client_in(100, 1)), 0);
    free(self);
}

Test(portion, a_network_has_what_its_clients_have_and_gives_it_back)
{
    portions_t *self = nobody();
    portion_t one = {0}, other = {0};

    cr_assert(portion_take(self, &one, ALL, ORDINARY, client_in(5, 1), 100));
    cr_assert(portion_take(self, &other, ALL, ORDINARY, client_in(5, 2), 50));
    cr_assert_eq(self->networks[5], 150);
    portion_keep(self, &one, 30);
    cr_assert_eq(self->networks[5], 80);
    portion_give(self, &one);
    portion_give(self, &other);
    cr_assert_eq(self->networks[5] + self->taken, 0);
    cr_assert_eq(portion_network(0), 0);
    cr_assert_not(portion_same_network(1, 1), "none is none's");
    free(self);
}

Test(portion, of_portions_that_are_as_large_as_can_be_one_client_has_all_of_it)
{
    portions_t *self = nobody();

    cr_assert_geq(part_of(take_all(self, PORTION_PERCENT_MAX, client_in(1, 1))), 900);
    free(self);
}

Test(portion, a_client_alone_in_its_network_has_what_it_has_of_all_by_small_percents_too)
{
    static const size_t percents[] = {1, 3, 10, 25, 50, ORDINARY, LARGE};

    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++) {
        portions_t *self = nobody(), *other = nobody();
        size_t most = take_all(self, percents[i], 1);
        size_t has = take_all(other, percents[i], client_in(1, 1));

        cr_assert_leq(has, most);
        cr_assert_leq(most - has, ALL / 1000, "%zu: %zu of %zu", percents[i], has, most);
        free(self);
        free(other);
    }
}

Test(portion, an_amount_fits_by_the_percent_for_it_and_by_no_less)
{
    static const size_t amounts[] = {1, 100, 5000, 30000, 100000};

    for (size_t i = 0; i < sizeof(amounts) / sizeof(amounts[0]); i++) {
        size_t percent = portion_percent_for(ALL, amounts[i]);

        cr_assert(portion_allows(0, amounts[i], ALL, ALL, percent), "%zu", amounts[i]);
        cr_assert_not(portion_allows(0, amounts[i], ALL, ALL, percent - 1), "%zu", amounts[i]);
    }
    cr_assert_eq(portion_percent_for(ALL, ALL), PORTION_PERCENT_MAX);
    cr_assert_eq(portion_percent_for(0, 1), PORTION_PERCENT_MAX);
}

/* Does a request of 1 MiB, in two parts, fit into so many MiB where nobody has any? */
static bool fits(size_t mib, size_t client, size_t account)
{
    portions_t *self = nobody();
    portion_t parts[2] = {{0}};
    portion_percents_t percents = portion_percents(mib << 20, 1 << 20, client, account);
    portion_account_t to = {7, 1, percents.account, percents.theirs, false};
    bool ok = true;

    for (int i = 0; i < 2; i++)
        ok = ok
             && portion_take(self, &parts[i], mib << 20, percents.client, client_in(5, 1), 1 << 19)
             && portion_charge_account(self, &parts[i], mib << 20, &to);
    free(self);
    return ok;
}

Test(portion, no_percents_are_so_small_that_a_request_never_fits)
{
    static const size_t memory[] = {16, 17, 20, 64, 256, 1024};
    static const size_t clients[] = {1, 3, 10, ORDINARY, PORTION_PERCENT_MAX};
    portion_percents_t usual = portion_percents(MEMORY, 1 << 20, ORDINARY, LARGE);

    for (size_t i = 0; i < sizeof(memory) / sizeof(memory[0]); i++)
        for (size_t k = 0; k < sizeof(clients) / sizeof(clients[0]); k++)
            for (size_t account = 1; account <= PORTION_PERCENT_MAX; account *= 10)
                cr_assert(fits(memory[i], clients[k], account), "%zu MiB, %zu, %zu", memory[i],
                          clients[k], account);
    cr_assert_eq(usual.client, ORDINARY);
    cr_assert_eq(usual.account, LARGE);
    cr_assert_eq(usual.theirs, ORDINARY);
}

Test(portion, most_is_where_one_stops_who_takes_all)
{
    static const size_t percents[] = {1, 50, ORDINARY, LARGE, 10000};

    for (size_t i = 0; i < sizeof(percents) / sizeof(percents[0]); i++)
        for (size_t left = 0; left <= 1 << 20; left += 4099) {
            size_t most = portion_most(1 << 20, left, percents[i]);

            cr_assert_leq(most, left);
            cr_assert(
                most < 4096
                || portion_allows(most - 4096, 1, 1 << 20, left - (most - 4096), percents[i]));
            cr_assert_not(portion_allows(most + 4096, 1, 1 << 20,
                                         left > most + 4096 ? left - most - 4096 : 0, percents[i]));
        }
    cr_assert_eq(portion_most(0, 0, 100), 0);
    cr_assert_eq(portion_most(100, 50, 0), 0);
}

Test(portion, what_is_given_back_can_be_taken_again)
{
    portions_t *self = nobody();
    portion_t part = {0}, other = {0};

    cr_assert(portion_take(self, &part, ALL, ORDINARY, 1, ALL / 3));
    cr_assert(portion_charge_account(self, &part, ALL,
                                     &(portion_account_t){.account = 7, .percent = LARGE}));
    cr_assert_not(portion_take(self, &other, ALL, ORDINARY, 1, ALL / 10));
    cr_assert(portion_take(self, &part, ALL, ORDINARY, 1, 2), "it has some already");
    cr_assert(
        portion_charge_account(self, &part, ALL, &(portion_account_t){.account = 7, .percent = 1}),
        "and is charged already");
    portion_give(self, &part);
    portion_give(self, &part);
    portion_give(self, &other);
    cr_assert_eq(self->taken + self->clients[1].has + self->accounts[7], 0);
    cr_assert(portion_take(self, &other, ALL, ORDINARY, 1, ALL / 10));
    free(self);
}

Test(portion, what_belongs_to_no_client_is_bounded_by_all)
{
    portions_t *self = nobody();

    cr_assert_eq(take_all(self, 1, 0), ALL);
    cr_assert_eq(self->clients[0].has, 0);
    cr_assert_eq(self->crowd, ALL);
    cr_assert_eq(take_all(self, 1000, 1), 0);
    free(self);
}

Test(portion, a_limit_that_was_passed_already_leaves_nothing)
{
    portions_t *self = nobody();
    portion_t part = {0}, one = {0};

    cr_assert(portion_take(self, &part, ALL, ORDINARY, 0, ALL));
    cr_assert_not(portion_take(self, &one, ALL / 2, ORDINARY, 1, 1));
    cr_assert_not(portion_charge_account(self, &part, ALL / 2,
                                         &(portion_account_t){.account = 7, .percent = LARGE}));
    free(self);
}

Test(portion, keeps_less_of_what_was_taken_and_gives_the_rest_back_once)
{
    portions_t *self = calloc(1, sizeof(*self));
    portion_t part = {0}, other = {0};

    cr_assert(portion_take(self, &part, ALL, ORDINARY, 3, 100));
    cr_assert(portion_charge_account(self, &part, ALL,
                                     &(portion_account_t){.account = 7, .percent = LARGE}));
    cr_assert(portion_take(self, &other, ALL, ORDINARY, 3, 5));
    portion_keep(self, &part, 200); /* more than it has */
    cr_assert_eq(part.amount, 100);
    portion_keep(self, &part, 30);
    cr_assert_eq(part.amount, 30);
    cr_assert_eq(self->taken, 35);
    cr_assert_eq(self->clients[3].has, 35);
    cr_assert_eq(self->accounts[7], 30);
    portion_give(self, &part);
    portion_give(self, &other);
    cr_assert_eq(self->taken + self->clients[3].has + self->accounts[7] + self->crowd, 0);
    portion_keep(self, &part, 10); /* of nothing */
    cr_assert_eq(part.amount, 0);
    free(self);
}

struct allows_case {
    size_t has, more, all, left, percent;
    bool want;
};

ParameterizedTestParameters(portion, allows)
{
    static struct allows_case cases[] = {
        {0, 1, 0, 0, 100, false},
        {0, 1, 512, 0, 10000, false},
        {0, 1, 512, 1, 10000, false}, /* nothing would be left */
        {0, 1, 512, 24, 100, true},
        {0, 1, 512, 23, 100, false},
        {255, 1, 1024, 513, 100, true},
        {256, 1, 1024, 513, 100, false},
        {128, 1, 1024, 513, 50, false},
        {1023, 1, 1024, 513, 400, true},
        {0, 2, 512, 1, 10000, false},
        {0, 1, 512, 513, 100, false}, /* more than there is */
        {(size_t)-1, 1, 512, 512, 100, false},
        {0, (size_t)-1, 512, 512, 100, false},
        {0, 1ull << 30, 1ull << 36, 1ull << 36, 10000, true},
    };

    return cr_make_param_array(struct allows_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct allows_case *one, portion, allows)
{
    cr_assert_eq(portion_allows(one->has, one->more, one->all, one->left, one->percent), one->want,
                 "%zu %zu %zu %zu %zu", one->has, one->more, one->all, one->left, one->percent);
}
