#include <criterion/criterion.h>
#include <stdlib.h>

#include "services/edge/http/room.h"

static room_t *empty(void)
{
    room_t *room = calloc(1, sizeof(*room));

    cr_assert(room);
    return room;
}

Test(room, an_account_has_a_fourth_of_it)
{
    room_t *room = empty();
    room_part_t whole = {.account = 7}, one = {.account = 7}, other = {.account = 8};

    cr_assert(room_take(room, &whole, ROOM_SHARE - 1));
    cr_assert_not(room_take(room, &one, 2));
    cr_assert_eq(one.bytes, 0);
    cr_assert(room_take(room, &one, 1));
    cr_assert_not(room_take(room, &whole, 1));
    cr_assert_eq(whole.bytes, ROOM_SHARE - 1, "it keeps what it had");
    cr_assert(room_take(room, &other, ROOM_SHARE), "another account has its own share");
    room_give(room, &whole);
    cr_assert(room_take(room, &whole, ROOM_SHARE - 1));
    free(room);
}

Test(room, all_accounts_together_have_a_bound)
{
    room_t *room = empty();
    room_part_t parts[4] = {{0}}, more = {.account = 4};

    for (uint32_t i = 0; i < 4; i++) {
        parts[i].account = i;
        cr_assert(room_take(room, &parts[i], ROOM_SHARE));
    }
    cr_assert_not(room_take(room, &more, 1));
    room_give(room, &parts[2]);
    cr_assert(room_take(room, &more, 1));
    free(room);
}

Test(room, a_part_grows_and_is_given_back_once)
{
    room_t *room = empty();
    room_part_t part = {.account = UINT32_MAX};

    room_give(room, &part);
    for (int i = 0; i < 10; i++)
        cr_assert(room_take(room, &part, 100));
    cr_assert_eq(part.bytes, 1000);
    room_give(room, &part);
    room_give(room, &part);
    cr_assert_eq(room->taken, 0);
    free(room);
}

Test(room, clients_of_an_account_leave_some_of_it_to_the_next_one)
{
    enum { CLIENTS = 5, PARTS = 3000, EACH = 8 << 10 };
    room_t *room = empty();
    room_part_t *greedy = calloc(CLIENTS * PARTS, sizeof(*greedy)), *next = greedy;
    room_part_t signed_one = {.account = 7, .client = 99, .percent = 100};

    cr_assert(greedy);
    for (uint32_t client = 1; client <= CLIENTS; client++) {
        for (int i = 0; i < PARTS; i++, next++) {
            *next = (room_part_t){.account = 7, .client = client, .percent = 100};
            room_take(room, next, EACH);
        }
        cr_assert_leq(room->client_shares[client], ROOM_CLIENT_SHARE);
    }
    cr_assert_eq(room->client_shares[1], ROOM_CLIENT_SHARE);
    cr_assert(room_take(room, &signed_one, 1 << 20), "of %zu are taken", room->taken);
    room_give(room, &signed_one);
    while (next > greedy)
        room_give(room, --next);
    cr_assert_eq(room->taken, 0);
    for (int i = 0; i < ROOM_CLIENTS; i++)
        cr_assert_eq(room->client_shares[i], 0);
    free(greedy);
    free(room);
}

Test(room, one_client_of_many_accounts_has_its_portion_of_all)
{
    enum { ACCOUNTS = 200, CLIENTS = 4, EACH = 2 << 20 };
    room_t *room = empty();
    room_part_t *parts = calloc(CLIENTS * ACCOUNTS, sizeof(*parts)), *next = parts;
    room_part_t signed_one = {.account = 999, .client = 999, .alone = 999, .percent = 100};

    cr_assert(parts);
    for (uint32_t client = 1; client <= CLIENTS; client++) {
        for (uint32_t account = 0; account < ACCOUNTS; account++, next++) {
            *next = (room_part_t){.account = account,
                                  .client = client * ACCOUNTS + account,
                                  .alone = client,
                                  .percent = 100};
            room_take(room, next, EACH);
        }
        cr_assert_lt(room->alone[client].has, ROOM_MAX / 100 * 39);
    }
    cr_assert_gt(room->alone[1].has, ROOM_MAX / 3);
    cr_assert(room_take(room, &signed_one, EACH), "of %zu are taken", room->taken);
    room_give(room, &signed_one);
    for (next = parts; next < parts + CLIENTS * ACCOUNTS; next++)
        room_give(room, next);
    cr_assert_eq(room->taken, 0);
    for (size_t i = 0; i < ROOM_CLIENTS; i++)
        cr_assert_eq(room->alone[i].has, 0);
    free(parts);
    free(room);
}

Test(room, one_network_of_many_clients_leaves_some_to_others)
{
    enum { ACCOUNTS = 4, CLIENTS = 64, PARTS = 64, EACH = 1 << 20 };
    room_t *room = empty();
    room_part_t *parts = calloc(CLIENTS * PARTS, sizeof(*parts)), *next = parts;
    room_part_t signed_one = {.account = 9, .client = 999, .alone = 2 << 16 | 999, .percent = 100};

    cr_assert(parts);
    for (uint32_t client = 1; client <= CLIENTS; client++)
        for (uint32_t i = 0; i < PARTS; i++, next++) {
            *next = (room_part_t){.account = i % ACCOUNTS,
                                  .client = client * ACCOUNTS + i % ACCOUNTS,
                                  .alone = 1 << 16 | client,
                                  .percent = 100};
            room_take(room, next, EACH);
        }
    cr_assert_gt(room->taken, ROOM_MAX / 2, "%zu", room->taken);
    cr_assert_lt(room->taken, ROOM_MAX / 100 * 61);
    cr_assert_eq(room->networks[1], room->taken);
    cr_assert(room_take(room, &signed_one, EACH), "of another network");
    room_give(room, &signed_one);
    while (next > parts)
        room_give(room, --next);
    cr_assert_eq(room->networks[1] + room->networks[2] + room->taken, 0);
    cr_assert_eq(room->network_crowds[1] + room->network_crowds[2] + room->crowd, 0);
    free(parts);
    free(room);
}

/* Its clients, with little each, send to many accounts. Then four of each of other networks take
 * what they can get. */
Test(room, a_network_of_many_that_send_webhooks_sends_more_whoever_else_takes_much)
{
    enum { PARTS = 8000, LITTLE = 64 << 10, MUCH = 1 << 20 };
    room_t *room = empty();
    room_part_t *parts = calloc(PARTS, sizeof(*parts)), *next = parts;

    cr_assert(parts);
    for (uint32_t i = 0; room->taken < ROOM_MAX / 5; i++, next++) {
        *next = (room_part_t){.account = i % 900, .alone = 1 << 16 | i, .percent = 100};
        cr_assert(room_take(room, next, LITTLE));
    }
    for (uint32_t i = 0; ROOM_MAX - room->taken > ROOM_MAX / 8;) {
        room_part_t one = {.account = 5, .alone = 1 << 16 | 8000, .percent = 100};

        *next = (room_part_t){
            .account = i % 900, .alone = (2 + i / 4) << 16 | (7000 + i), .percent = 100};
        i += !room_take(room, next++, MUCH);
        cr_assert(room_take(room, &one, LITTLE), "%u others, %zu are taken", i, room->taken);
        room_give(room, &one);
    }
    for (uint32_t i = 0; i < 1000; i++) {
        *next = (room_part_t){.account = i % 900, .alone = 1 << 16 | (1000 + i), .percent = 100};
        room_take(room, next++, LITTLE);
    }
    cr_assert_geq(ROOM_MAX - room->taken, ROOM_MAX / 32 * 3, "%zu", room->taken);
    cr_assert_leq(room->networks[1], ROOM_MAX / 4);
    free(parts);
    free(room);
}

Test(room, a_client_is_of_the_crowd_with_few_whichever_of_its_bodies_have_ended)
{
    enum { FEW = ROOM_MAX / PORTION_FEW };
    room_t *room = empty();
    room_part_t first = {.account = 7, .client = 5, .alone = 1 << 16 | 5, .percent = 100};
    room_part_t later = first;

    cr_assert(room_take(room, &first, FEW));
    cr_assert(room_take(room, &later, FEW));
    room_give(room, &first);
    cr_assert_eq(room->crowd, FEW, "%zu", room->crowd);
    cr_assert(room_take(room, &later, FEW));
    cr_assert_eq(room->network_crowds[1], FEW, "its network's own, as it grows");
    cr_assert_eq(room->crowd, FEW);
    room_give(room, &later);
    cr_assert_eq(room->crowd + room->network_crowds[1], 0);
    free(room);
}

/* A body of the largest size, as it comes: of its smallest pieces. */
static bool body_fits(room_t *room, room_part_t *part)
{
    while (part->bytes < ROOM_BODY)
        if (!room_take(room, part, part->bytes ? 600 : 8 << 10))
            return false;
    return true;
}

Test(room, no_percent_is_so_small_that_a_body_never_fits)
{
    room_t *room = empty();
    room_part_t one = {.account = 7, .client = 5, .alone = 2 << 16 | 5, .percent = 1};
    room_part_t neighbour = {.account = 8, .client = 6, .alone = 2 << 16 | 6, .percent = 1};
    room_part_t more = one;

    cr_assert(body_fits(room, &one), "%zu bytes", one.bytes);
    cr_assert(body_fits(room, &neighbour), "%zu bytes, of the same network", neighbour.bytes);
    cr_assert_not(body_fits(room, &more), "a second one of the same client");
    room_give(room, &one);
    room_give(room, &more);
    cr_assert(body_fits(room, &more), "but for the first one's end");
    free(room);
}

Test(room, nothing_can_be_more_than_all)
{
    room_t *room = empty();
    room_part_t part = {0};

    cr_assert_not(room_take(room, &part, SIZE_MAX));
    cr_assert_not(room_take(room, &part, (size_t)ROOM_SHARE + 1));
    cr_assert(room_take(room, &part, 0));
    free(room);
}
