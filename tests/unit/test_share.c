#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "services/edge/http/portion.h"
#include "services/edge/http/share.h"

enum { ALL = 8192 };

/* A worker's connections: each part that is taken makes one less free. */
typedef struct {
    share_t share;
    size_t taken;
    share_part_t parts[ALL];
} worker_t;

static bool take_for(worker_t *self, uint32_t account, uint32_t client, uint32_t alone)
{
    share_part_t *part = &self->parts[self->taken];

    *part = (share_part_t){.account = account, .client = client, .alone = alone};
    if (!share_take(&self->share, part, ALL, ALL - self->taken, 100))
        return false;
    self->taken++;
    return true;
}

static bool take(worker_t *self, uint32_t account, uint32_t client)
{
    return take_for(self, account, client, 0);
}

static size_t take_all(worker_t *self, uint32_t account, uint32_t client)
{
    size_t before = self->taken;

    while (self->taken < ALL && take(self, account, client))
        ;
    return self->taken - before;
}

Test(share, one_client_leaves_half_to_others)
{
    worker_t *worker = calloc(1, sizeof(*worker));

    cr_assert_eq(take_all(worker, 1, 11), ALL / 2 + 1);
    cr_assert(take(worker, 1, 12), "another client of the account");
    cr_assert(take(worker, 2, 13), "and another account");
    cr_assert_eq(take_all(worker, 2, 13), ALL / SHARE_CLIENT - 1);
    free(worker);
}

Test(share, one_account_of_many_clients_leaves_a_fourth_to_others)
{
    worker_t *worker = calloc(1, sizeof(*worker));
    size_t n = 0;

    for (uint32_t client = 0; client < 1000; client++)
        n += take_all(worker, 1, client);
    cr_assert_eq(n, ALL - ALL / 4 + 1);
    cr_assert(take(worker, 2, 5000));
    free(worker);
}

/* Whatever a client's requests hold, of as many accounts as there are. */
static size_t take_of_all_accounts(worker_t *self, uint32_t alone)
{
    size_t before = self->taken, last;

    do {
        last = self->taken;
        for (uint32_t account = 1; account <= 100 && self->taken < ALL; account++)
            take_for(self, account, 1000 * alone + account, alone);
    } while (self->taken != last && self->taken < ALL);
    return self->taken - before;
}

Test(share, one_client_of_many_accounts_has_its_portion_of_all)
{
    worker_t *worker = calloc(1, sizeof(*worker));

    cr_assert_lt(take_of_all_accounts(worker, 1), ALL * 39 / 100);
    cr_assert_gt(worker->taken, ALL / 3);
    cr_assert(take_for(worker, 1, 7, 2), "another client");
    for (uint32_t client = 2; client <= 6; client++)
        take_of_all_accounts(worker, client);
    cr_assert_gt(ALL - worker->taken, ALL / 8, "six leave an eighth to the next one");
    cr_assert(take_for(worker, 1, 7000, 7));
    for (size_t i = 0; i < worker->taken; i++)
        share_give(&worker->share, &worker->parts[i]);
    for (size_t i = 0; i < SHARE_CLIENTS; i++)
        cr_assert_eq(worker->share.alone[i].has, 0);
    free(worker);
}

Test(share, connections_of_a_client_and_those_for_it_are_one_count)
{
    worker_t *worker = calloc(1, sizeof(*worker));
    share_part_t few = {.account = 2, .client = 12, .alone = 7};
    share_whose_t last[2];
    size_t entered = 0;

    while (share_allows(&worker->share, 5, ALL, ALL - entered, 100))
        last[entered++ % 2] = share_enter(&worker->share, 5, ALL);
    worker->taken = entered;
    cr_assert_not(take_for(worker, 1, 11, 5));
    cr_assert(take_for(worker, 1, 11, 6), "of another client");
    cr_assert(share_take(&worker->share, &few, ALL, 2, 100), "of one that has few");
    share_leave(&worker->share, &last[0]);
    share_leave(&worker->share, &last[1]);
    worker->taken -= 2;
    cr_assert(take_for(worker, 1, 11, 5));
    cr_assert(share_allows(&worker->share, 0, ALL, 0, 100), "somebody who speaks for many");
    free(worker);
}

Test(share, what_is_given_back_can_be_taken_again)
{
    worker_t *worker = calloc(1, sizeof(*worker));
    share_part_t one = {.account = 1, .client = 11};

    take_all(worker, 1, 11);
    cr_assert_not(share_take(&worker->share, &one, ALL, ALL - worker->taken, 100));
    share_give(&worker->share, &one);
    for (size_t i = 0; i < worker->taken; i++) {
        share_give(&worker->share, &worker->parts[i]);
        share_give(&worker->share, &worker->parts[i]);
    }
    cr_assert(share_take(&worker->share, &one, ALL, 0, 100));
    cr_assert(share_take(&worker->share, &one, ALL, 0, 100), "it has it already");
    share_give(&worker->share, &one);
    cr_assert_eq(worker->share.accounts[1], 0);
    cr_assert_eq(worker->share.clients[11], 0);
    free(worker);
}

Test(share, with_nothing_known_of_the_connections_nobody_is_denied_more_than_the_share)
{
    share_t *share = calloc(1, sizeof(*share));
    share_part_t part = {0};

    cr_assert(share_take(share, &part, 0, 0, 100));
    share_give(share, &part);
    free(share);
}

Test(share, clients_have_all_places_and_who_shares_one_nobody_can_choose)
{
    static unsigned char used[SHARE_CLIENTS];
    const unsigned char one[SHARE_KEY_BYTES] = "one", other[SHARE_KEY_BYTES] = "other";
    size_t places = 0, together = 0, still = 0;

    for (uint32_t address = 0; address < 16 * SHARE_CLIENTS; address++) {
        size_t at = share_hash(one, &address, sizeof(address), 7) % SHARE_CLIENTS;

        places += !used[at];
        used[at] = 1;
        if (address == 0 || at != share_hash(one, "\0\0\0", 4, 7) % SHARE_CLIENTS)
            continue;
        together++;
        still += share_hash(other, &address, sizeof(address), 7) % SHARE_CLIENTS
                 == share_hash(other, "\0\0\0", 4, 7) % SHARE_CLIENTS;
    }
    cr_assert_geq(places, SHARE_CLIENTS - 10, "%zu", places);
    cr_assert(together > 0 && still < together / 2, "%zu %zu", together, still);
    cr_assert_neq(share_hash(one, "a", 1, 7), share_hash(one, "a", 1, 8));
}

Test(share, some_connections_are_nobodys)
{
    cr_assert_eq(share_reserve(ALL), 128);
    cr_assert_eq(share_reserve(512), 8, "of the fewest that a worker may have");
    cr_assert_eq(share_reserve(0), 0);
}

/* ---- connections that no request holds ---- */

/* Requests over HTTP/1.1: each on a connection of its own, and with one to an upstream. */
typedef struct {
    share_t share;
    size_t used, count;
    share_part_t parts[ALL];
    uint32_t requests[ALL];
} crowd_t;

/* False: the client's connection was closed again. */
static bool visit(crowd_t *self, uint32_t account, uint32_t client)
{
    share_part_t *part = &self->parts[self->count];
    share_whose_t whose;

    if (ALL - self->used <= share_reserve(ALL))
        return false;
    *part = (share_part_t){.account = account,
                           .client = client, /* at one account only */
                           .alone = client,
                           .requests = &self->requests[self->count]};
    whose = share_enter(&self->share, client, ALL);
    if (!share_take(&self->share, part, ALL, ALL - self->used - 1, 100)) {
        share_leave(&self->share, &whose);
        return false;
    }
    self->used += 2;
    self->count++;
    return true;
}

/* Connections of one client with half a head on each, or nothing. */
static void connect_only(crowd_t *self, uint32_t client, size_t most)
{
    while (most-- && share_allows(&self->share, client, ALL, ALL - self->used, 100)) {
        share_enter(&self->share, client, ALL);
        self->used++;
    }
}

/* 2,400 people, each with one request, at one account. */
static crowd_t *busy_account(void)
{
    crowd_t *crowd = calloc(1, sizeof(*crowd));

    for (uint32_t client = 1; client <= 2400; client++)
        cr_assert(visit(crowd, 1, client), "%u", client);
    return crowd;
}

Test(share, connections_without_a_request_deny_no_busy_account_to_new_clients)
{
    crowd_t *crowd = busy_account();
    share_part_t many = {.account = 1}, more = {.account = 1, .client = 8000, .alone = 8000};
    size_t served = 0;

    for (uint32_t client = 5001; client <= 5003; client++)
        connect_only(crowd, client, ALL);
    cr_assert_lt(ALL - crowd->used, ALL / SHARE_ACCOUNT_FREE, "less than a fourth is free");
    for (uint32_t client = 6000; visit(crowd, 1, client); client++)
        served++;
    cr_assert_gt(served, 100, "%zu", served);
    cr_assert_geq(ALL - crowd->used, ALL / SHARE_LAST, "%zu are used", crowd->used);
    cr_assert_leq(2 * crowd->count, ALL - ALL / SHARE_ACCOUNT_FREE + 2);
    cr_assert(visit(crowd, 2, 5100), "another account");
    crowd->used -= 400;
    cr_assert_not(share_take(&crowd->share, &many, ALL, ALL - crowd->used, 100), "of many");
    for (int i = 0; i < SHARE_FEW; i++) {
        more.taken = false;
        cr_assert(share_take(&crowd->share, &more, ALL, ALL - crowd->used, 100));
    }
    more.taken = false;
    cr_assert_not(share_take(&crowd->share, &more, ALL, ALL - crowd->used, 100), "few at a time");
    free(crowd);
}

Test(share, what_accounts_have_together_leaves_a_fourth_whoever_comes_first)
{
    crowd_t *crowd = busy_account();
    uint32_t client = 3000;

    while (ALL - crowd->used > ALL / SHARE_ACCOUNT_FREE)
        cr_assert(visit(crowd, 2, client++));
    cr_assert_not(visit(crowd, 1, client), "of an account that others stand beside");
    cr_assert(visit(crowd, 3, client));
    for (size_t i = 0; i < crowd->count; i++)
        share_give(&crowd->share, &crowd->parts[i]);
    cr_assert_eq(crowd->share.held, 0);
    free(crowd);
}

Test(share, requests_of_one_connection_hold_it_once)
{
    worker_t *worker = calloc(1, sizeof(*worker));
    uint32_t requests = 0;
    share_part_t parts[3];

    for (int i = 0; i < 3; i++) {
        parts[i] = (share_part_t){.account = 1, .client = 11, .requests = &requests};
        cr_assert(share_take(&worker->share, &parts[i], ALL, ALL, 100));
    }
    cr_assert_eq(requests, 3);
    cr_assert_eq(worker->share.held, 4);
    for (int i = 0; i < 3; i++)
        share_give(&worker->share, &parts[i]);
    cr_assert_eq(requests + worker->share.held, 0);
    free(worker);
}

Test(share, clients_of_an_account_leave_some_of_it_to_the_next_one)
{
    worker_t *worker = calloc(1, sizeof(*worker));

    for (uint32_t client = 1; client <= 40; client++)
        while (take_for(worker, 1, 100 + client, client))
            ;
    cr_assert_lt(ALL - worker->taken, ALL / 3, "%zu are taken", worker->taken);
    cr_assert(take_for(worker, 1, 999, 999));
    cr_assert(take_for(worker, 2, 998, 998), "and to another account");
    free(worker);
}

/* ---- networks ---- */

static const unsigned char KEY[SHARE_KEY_BYTES] = "a key";

static uint32_t client_of(const char *text, uint32_t account)
{
    struct sockaddr_storage address;

    cr_assert(address_parse(text, 443, &address), "%s", text);
    return share_client(KEY, (struct sockaddr *)&address, account);
}

Test(share, a_client_is_an_address_or_a_customers_network_in_a_larger_one)
{
    static const struct {
        const char *one, *other;
        bool client, network; /* the same? */
    } cases[] = {
        {"192.0.2.1", "192.0.2.1", true, true},
        {"192.0.2.1", "192.0.2.2", false, true},
        {"192.0.2.1", "192.0.3.1", false, false},
        {"2001:db8:0:1::1", "2001:db8:0:1:ffff::2", true, true},
        {"2001:db8:0:1::1", "2001:db8:0:2::1", false, true},
        {"2001:db8:0:1::1", "2001:db8:1:1::1", false, false},
        {"::ffff:192.0.2.1", "192.0.2.1", true, true},
        {"64:ff9b::192.0.2.1", "192.0.2.1", true, true},
        {"64:ff9b::192.0.2.1", "64:ff9b::198.51.100.1", false, false},
        {"2002:c000:201::1", "192.0.2.1", true, true},
        {"2002:c000:201:ffff::1", "192.0.2.1", true, true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        uint32_t one = client_of(cases[i].one, 0), other = client_of(cases[i].other, 0);

        cr_assert_eq(one == other, cases[i].client, "%s %s", cases[i].one, cases[i].other);
        cr_assert_eq(portion_same_network(one, other), cases[i].network, "%s %s", cases[i].one,
                     cases[i].other);
        cr_assert_neq(portion_network(one), 0);
    }
    cr_assert_neq(client_of("192.0.2.1", 0), client_of("192.0.2.1", 5));
    cr_assert_neq(share_client(KEY, &(struct sockaddr){.sa_family = AF_UNIX}, 0), 0);
    cr_assert_eq(portion_network(share_client(KEY, &(struct sockaddr){.sa_family = AF_UNIX}, 0)),
                 0);
}

Test(share, one_customers_many_networks_leave_connections_to_others_and_to_one_more_of_its_own)
{
    crowd_t *crowd = calloc(1, sizeof(*crowd));
    char text[32];

    for (int i = 0; i < 64; i++) {
        snprintf(text, sizeof(text), "2001:db8:0:%x::1", i);
        connect_only(crowd, client_of(text, 0), ALL);
    }
    cr_assert_lt(crowd->used, ALL * 61 / 100, "%zu", crowd->used);
    cr_assert_gt(crowd->used, ALL / 2, "%zu", crowd->used);
    cr_assert(share_allows(&crowd->share, client_of("2001:db8:0:ffff::1", 0), ALL,
                           ALL - crowd->used, 100),
              "a neighbour");
    for (int i = 0; i < 200; i++) {
        snprintf(text, sizeof(text), "198.51.%d.7", i);
        cr_assert(visit(crowd, 1, client_of(text, 0)), "%s", text);
    }
    free(crowd);
}

/* As many clients of a network as there are, with few connections each, have a tenth of all. Then
 * clients of other networks, four of each, take what they can get. */
static crowd_t *busy_network(size_t parts)
{
    crowd_t *crowd = calloc(1, sizeof(*crowd));

    for (uint32_t i = 0; crowd->used < ALL / parts; i++)
        connect_only(crowd, 1 << 16 | i % 8000, 1);
    return crowd;
}

Test(share, who_has_many_connections_denies_no_busy_network_to_new_clients)
{
    static const size_t parts[] = {20, 10, 5};

    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        crowd_t *crowd = busy_network(parts[i]);
        uint32_t own = 1 << 16 | 8100, few = own, greedy = 0;

        while (ALL - crowd->used > ALL / 10 && greedy < 100) {
            connect_only(crowd, (2 + greedy / 4) << 16 | (8001 + greedy), 20);
            cr_assert(share_allows(&crowd->share, own, ALL, ALL - crowd->used, 100), "%zu: %zu",
                      parts[i], crowd->used);
            greedy += !share_allows(&crowd->share, (2 + greedy / 4) << 16 | (8001 + greedy), ALL,
                                    ALL - crowd->used, 100);
        }
        while (share_allows(&crowd->share, few, ALL, ALL - crowd->used, 100))
            connect_only(crowd, few++, 1);
        cr_assert_geq(ALL - crowd->used, ALL * 3 / 32, "%zu: %zu", parts[i], crowd->used);
        cr_assert(share_allows(&crowd->share, 99 << 16 | 8150, ALL, ALL - crowd->used, 100));
        free(crowd);
    }
}

Test(share, a_network_of_many_with_few_leaves_connections_to_others_whoever_else_has_many)
{
    crowd_t *crowd = busy_account();
    size_t served = 0;

    connect_only(crowd, 2 << 16 | 8190, ALL);
    for (uint32_t i = 0; i < 65536 / 8; i++)
        connect_only(crowd, 3 << 16 | i, 4);
    cr_assert_geq(ALL - crowd->used, ALL * 3 / 32, "%zu", crowd->used);
    cr_assert_lt(crowd->share.networks[3], ALL * 62 / 100);
    for (uint32_t i = 0; i < 100; i++)
        served += visit(crowd, 1, (100 + i) << 16 | (8001 + i));
    cr_assert_eq(served, 100, "new visitors of an account that is busy: %zu", served);
    free(crowd);
}

Test(share, who_was_let_in_may_ask_as_long_as_the_network_above_has_something_left)
{
    share_t *share = calloc(1, sizeof(*share));
    uint32_t mine = client_of("192.0.2.1", 0), other = client_of("192.0.2.2", 0);
    share_whose_t first = share_enter(share, mine, 512), others[120];
    size_t used = 0;

    cr_assert(share_may_ask(share, mine, 512, 9, 100), "of a network that has few");
    for (; used < 120; used++)
        others[used] = share_enter(share, other, 512);
    cr_assert(share_may_ask(share, mine, 512, 512 - used, 100));
    cr_assert(share_may_ask(share, mine, 512, 70, 100), "whoever has the rest");
    cr_assert_not(share_may_ask(share, mine, 512, 48, 100), "of the last ones");
    while (used)
        share_leave(share, &others[--used]);
    share_leave(share, &first);
    for (size_t i = 0; i < SHARE_CLIENTS; i++)
        cr_assert_eq(share->alone[i].has + share->networks[i] + share->network_crowds[i], 0);
    cr_assert_eq(share->crowd, 0);
    free(share);
}

Test(share, a_client_is_of_the_crowd_with_few_whichever_of_its_connections_have_ended)
{
    enum { FEW = 8192 / PORTION_FEW };
    share_t *share = calloc(1, sizeof(*share));
    uint32_t mine = client_of("192.0.2.1", 0), network = portion_network(mine) % SHARE_CLIENTS;
    share_whose_t first[FEW], later[FEW], next;

    for (int i = 0; i < FEW; i++)
        first[i] = share_enter(share, mine, 8192);
    for (int i = 0; i < FEW; i++)
        later[i] = share_enter(share, mine, 8192);
    for (int i = 0; i < FEW; i++)
        share_leave(share, &first[i]);
    cr_assert_eq(share->crowd, FEW, "%zu", share->crowd);
    next = share_enter(share, mine, 8192);
    cr_assert_eq(share->network_crowds[network], 1, "its network's own, with the next one");
    for (int i = 0; i < FEW; i++)
        share_leave(share, &later[i]);
    cr_assert_eq(share->crowd, 1);
    share_leave(share, &next);
    cr_assert_eq(share->crowd + share->network_crowds[network], 0);
    free(share);
}

Test(share, the_last_ones_are_for_requests_of_clients_that_are_let_in_and_nobody_is_blamed)
{
    share_t *share = calloc(1, sizeof(*share));
    uint32_t mine = client_of("192.0.2.1", 0), other = client_of("192.0.3.1", 0);
    share_part_t part = {.account = 1, .client = 9, .alone = other};

    share_enter(share, other, 1024);
    cr_assert_not(share_allows(share, mine, 1024, 31, 100));
    cr_assert(share_lets_nobody_in(share, mine, 1024, 31, 100));
    cr_assert_not(share_lets_nobody_in(share, other, 1024, 31, 100), "it has some");
    cr_assert_not(share_lets_nobody_in(share, mine, 1024, 40, 100));
    cr_assert(share_allows(share, mine, 1024, 40, 100));
    cr_assert(share_take(share, &part, 1024, 17, 100), "of one that is let in");
    cr_assert_not(share_lets_nobody_in(share, 0, 1024, 0, 100), "one of many");
    free(share);
}
