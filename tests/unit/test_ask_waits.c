/* Questions that wait for a place among those under way: their order, their bounds, and their time. */
#include "services/edge/control/ask_waits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static asks_t asks = {.client_percent = 100};
static ask_waits_t waits = {.client_percent = 100, .account_percent = 400};
static int askers[1024];
static char big[ASK_WAITS_BYTES_MAX / 4];

static bool add(int asker, const char *account, uint32_t client)
{
    ask_who_t who = {&askers[asker], account, strlen(account), client, false, 1000 + asker};

    return ask_waits_add(&waits, &who, "session.check", &(ask_body_t){"body", 4, NULL});
}

/* The number of the last of them. */
static uint64_t fill(const char *account)
{
    uint64_t last = 0;

    for (int i = 0; i < ASKS_ACCOUNT_MAX; i++)
        cr_assert((last = asks_begin(&asks, &asks, account, strlen(account), 0, false, 1)));
    return last;
}

/* The index of who is next; -1: nobody. */
static int taken(void)
{
    ask_wait_t *wait = ask_waits_take(&waits, &asks);
    int asker = wait ? (int)((int *)wait->whose - askers) : -1;

    if (wait)
        cr_assert(wait->number && wait->len == 4 && memcmp(wait->body, "body", 4) == 0);
    if (wait)
        ask_wait_free(wait);
    return asker;
}

Test(ask_waits, the_oldest_that_has_room_is_next)
{
    uint64_t last = fill("ac_full");

    for (int i = 0; i < 3; i++) {
        cr_assert(add(2 * i, "ac_full", 0));
        cr_assert(add(2 * i + 1, "ac_free", 0));
    }
    for (int i = 0; i < 3; i++)
        cr_assert_eq(taken(), 2 * i + 1);
    cr_assert_eq(taken(), -1);
    cr_assert_eq(waits.count, 3);
    asks_end(&asks, last);
    cr_assert_eq(taken(), 0);
    cr_assert_eq(taken(), -1);
}

Test(ask_waits, a_client_that_has_its_share_keeps_nobody_behind_it_out)
{
    for (int i = 0; i < ASKS_CLIENT_MAX + 2; i++)
        cr_assert(add(i, "ac_one", 7));
    cr_assert(add(100, "ac_one", 8));
    for (int i = 0; i < ASKS_CLIENT_MAX; i++)
        cr_assert_eq(taken(), i);
    cr_assert_eq(taken(), 100);
    cr_assert_eq(taken(), -1);
}

Test(ask_waits, none_is_taken_while_all_places_are)
{
    char account[16];

    for (int i = 0; i < ASKS_MAX; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        cr_assert(asks_begin(&asks, &asks, account, strlen(account), 0, false, 1));
    }
    cr_assert(add(1, "ac_other", 0));
    cr_assert_eq(taken(), -1);
}

/* Of any kind: adds as many as there is room for, and returns how many. */
static int add_all(const char *account, uint32_t client, unsigned kind)
{
    ask_who_t who = {askers, account, strlen(account), client, kind, 1000};
    int count = 0;

    while (ask_waits_add(&waits, &who, "session.check", &(ask_body_t){"body", 4, NULL}))
        count++;
    return count;
}

Test(ask_waits, how_many_wait_is_bounded)
{
    int client = 0, own = 0, others = 0;

    while (add(client, "ac_one", 7))
        client++;
    cr_assert_eq(client, ASK_WAITS_ACCOUNT_MAX / 2, "half of its account's");
    while (add(client + own, "ac_one", 0))
        own++;
    cr_assert_eq(client + own, ASK_WAITS_ACCOUNT_MAX);
    while (add(ASK_WAITS_ACCOUNT_MAX + others, "ac_two", 0))
        others++;
    cr_assert_eq(others, ASK_WAITS_ACCOUNT_FEW, "more than half of all are taken");
    cr_assert(add(1000, "ac_three", 0));
}

Test(ask_waits, a_client_or_an_account_of_many_leaves_some_to_others)
{
    for (unsigned kind = 0; kind <= ASK_MACHINE; kind += ASK_MACHINE) {
        int all = kind ? ASK_WAITS_MAX / ASK_WAITS_MACHINES : ASK_WAITS_MAX, count = 0, some;

        for (int i = 0; i < 16; i++) {
            char account[16];

            snprintf(account, sizeof(account), "ac_%d", i);
            count += add_all(account, 7, kind);
        }
        cr_assert_leq(count, all * 2 / 5, "one client of 16 accounts: %d", count);
        some = add_all("ac_1", 8, kind);
        cr_assert_gt(some, all / 10, "another one: %d", some);
        for (int i = 0; i < 16; i++) {
            char account[16];

            snprintf(account, sizeof(account), "ac_%d", i);
            add_all(account, 0, kind);
        }
        some = add_all("ac_other", 9, kind);
        cr_assert_gt(some, 0, "beside 16 accounts: %d", some);
        ask_waits_expire(&waits);
        while (ask_waits_late(&waits, 0))
            ;
    }
}

Test(ask_waits, a_network_of_many_clients_leaves_some_to_others)
{
    int count = 0;

    for (uint32_t client = 1; client <= 600; client++) {
        char account[16];

        snprintf(account, sizeof(account), "ac_%u", client);
        count += add_all(account, 1 << 16 | client, 0);
    }
    cr_assert_gt(count, ASK_WAITS_MAX / 2, "%d", count);
    cr_assert_leq(count, ASK_WAITS_MAX * 62 / 100, "%d", count);
    cr_assert(add(1000, "ac_other", 2 << 16 | 1));
}

Test(ask_waits, few_clients_of_an_account_leave_some_to_the_next_one)
{
    static const unsigned kinds[] = {0, ASK_SLOW, ASK_MACHINE};

    for (int kind = 0; kind < 3; kind++) {
        for (uint32_t client = 1; client <= 8; client++)
            cr_assert_gt(add_all("ac_one", client, kinds[kind]), 0, "%u", client);
        cr_assert_gt(add_all("ac_one", 9, kinds[kind]), 0, "kind %d", kind);
        cr_assert_gt(add_all("ac_one", 10, kinds[kind]), 0, "kind %d", kind);
        ask_waits_expire(&waits);
        while (ask_waits_late(&waits, 0))
            ;
    }
}

Test(ask_waits, nor_do_they_when_others_wait_too_and_the_account_may_have_less)
{
    add_all("ac_one", 1, 0);
    add_all("ac_one", 2, 0);
    add_all("ac_two", 3, 0);
    add_all("ac_three", 4, 0);
    cr_assert_gt(waits.count, (size_t)ASK_WAITS_MAX / 2);
    cr_assert_eq(add_all("ac_one", 1, 0), 0);
    cr_assert_eq(add_all("ac_one", 5, 0), 1, "who has none may have one");
    cr_assert_eq(add_all("ac_one", 6, 0), 1);
}

Test(ask_waits, nor_does_a_network_of_many_clients_keep_others_from_its_account)
{
    int count = 0;

    for (uint32_t client = 1; client <= 600; client++)
        count += add_all("ac_one", 1 << 16 | client, 0);
    cr_assert_gt(count, ASK_WAITS_ACCOUNT_MAX / 2, "%d", count);
    cr_assert_lt(count, ASK_WAITS_ACCOUNT_MAX * 3 / 4, "%d", count);
    cr_assert(add(1000, "ac_one", 2 << 16 | 1));
}

static bool add_machine(int asker, const char *account, uint32_t client)
{
    ask_who_t who = {&askers[asker], account, strlen(account), client, ASK_MACHINE, 1000};

    return ask_waits_add(&waits, &who, "bearer_token.check", &(ask_body_t){"body", 4, NULL});
}

Test(ask_waits, machines_wait_as_people_do_and_take_half_of_the_room_at_most)
{
    enum { HALF = ASK_WAITS_MAX / ASK_WAITS_MACHINES };
    int client = add_all("ac_one", 7, ASK_MACHINE), all = client;
    char account[16];

    cr_assert_eq(client, ASK_WAITS_ACCOUNT_MAX / 2 / ASK_WAITS_MACHINES);
    all += add_all("ac_one", 8, ASK_MACHINE);
    cr_assert_lt(all, ASK_WAITS_ACCOUNT_MAX / ASK_WAITS_MACHINES);
    all += add_all("ac_one", 0, ASK_MACHINE);
    cr_assert_eq(all, ASK_WAITS_ACCOUNT_MAX / ASK_WAITS_MACHINES);
    for (int i = 0; i < 600; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        all += add_all(account, 0, ASK_MACHINE);
    }
    cr_assert_eq(all, HALF);
    cr_assert_eq(add_all("ac_one", 7, 0), ASK_WAITS_ACCOUNT_FEW / 2, "people of the client");
    cr_assert_eq(add_all("ac_one", 0, 0), ASK_WAITS_ACCOUNT_FEW / 2, "and of the account");
    cr_assert(add(1000, "ac_four", 0));
}

Test(ask_waits, machines_that_wait_keep_no_place_from_people_behind_them)
{
    for (int i = 0; i < ASKS_ACCOUNT_MACHINES_MAX; i++)
        cr_assert(asks_begin(&asks, &asks, "ac_one", 6, 0, ASK_MACHINE, 1));
    for (int i = 0; i < 5; i++)
        cr_assert(add_machine(i, "ac_one", 0));
    cr_assert(add(100, "ac_one", 0));
    cr_assert_eq(taken(), 100);
    cr_assert_eq(taken(), -1);
}

static bool add_bytes(const char *account, unsigned kind, size_t len, shared_text_t *shared)
{
    ask_who_t who = {askers, account, strlen(account), 0, kind, 1000};

    return ask_waits_add(&waits, &who, "v", &(ask_body_t){big, len, shared});
}

Test(ask_waits, so_are_their_bytes)
{
    cr_assert(add_bytes("ac_one", 0, sizeof(big) - 1, NULL));
    cr_assert(add_bytes("ac_one", 0, 1, NULL));
    cr_assert_not(add_bytes("ac_one", 0, 1, NULL));
    cr_assert(add_bytes("ac_two", 0, sizeof(big), NULL));
    cr_assert(add_bytes("ac_one", ASK_MACHINE, sizeof(big) / ASK_WAITS_MACHINES, NULL));
    cr_assert_not(add_bytes("ac_one", ASK_MACHINE, 1, NULL));
    memset(big, 'a', ASK_ACCOUNT_SIZE);
    cr_assert_not(add_bytes(big, 0, 1, NULL), "an account that is too long");
}

Test(ask_waits, nor_do_few_long_ones_of_many_accounts_take_all_bytes)
{
    enum { LONG = 128 << 10 };

    for (int i = 0; i < 16; i++) {
        ask_who_t who = {askers, NULL, 0, 7, 0, 1000};
        char account[16];

        snprintf(account, sizeof(account), "ac_%d", i);
        who.account = account;
        who.account_len = strlen(account);
        while (ask_waits_add(&waits, &who, "v", &(ask_body_t){big, LONG, NULL}))
            ;
    }
    cr_assert_leq(waits.bytes, (size_t)ASK_WAITS_BYTES_MAX * 2 / 5, "one client's");
    for (int i = 0; i < 16; i++) {
        char account[16];

        snprintf(account, sizeof(account), "ac_%d", i);
        while (add_bytes(account, 0, LONG, NULL))
            ;
    }
    cr_assert(add_bytes("ac_other", 0, 4096, NULL));
}

Test(ask_waits, nor_all_bytes_of_their_account)
{
    enum { LONG = 128 << 10 };
    ask_who_t who = {askers, "ac_one", 6, 0, 0, 1000};

    for (who.client = 1; who.client <= 4; who.client++)
        while (ask_waits_add(&waits, &who, "v", &(ask_body_t){big, LONG, NULL}))
            ;
    cr_assert_leq(waits.bytes, (size_t)ASK_WAITS_ACCOUNT_BYTES - LONG);
    cr_assert(ask_waits_add(&waits, &who, "v", &(ask_body_t){big, LONG, NULL}));
}

Test(ask_waits, what_many_share_takes_nothing_of_what_one_of_them_may_have)
{
    shared_text_t *module = shared_text_new(big, sizeof(big) / 8 * 5);
    ask_who_t who = {askers, "ac_one", 6, 7, 0, 1000};

    for (int i = 0; i < 100; i++)
        cr_assert(ask_waits_add(&waits, &who, "v", &(ask_body_t){big, 1000, module}), "%d", i);
    shared_text_unref(&module);
}

Test(ask_waits, what_many_share_is_in_memory_once_and_counts_once)
{
    shared_text_t *module = shared_text_new(big, sizeof(big) - 8 * ASK_WAITS_ACCOUNT_MAX);
    shared_text_t *other = shared_text_new(big, sizeof(big));
    ask_wait_t *wait;

    for (int i = 0; i < ASK_WAITS_ACCOUNT_MAX; i++)
        cr_assert(add_bytes("ac_one", 0, 4, module), "%d", i);
    cr_assert_eq(waits.bytes, sizeof(big) - 4 * ASK_WAITS_ACCOUNT_MAX);
    cr_assert((wait = ask_waits_take(&waits, &asks)));
    cr_assert_eq(wait->shared, module);
    cr_assert_not(add_bytes("ac_one", 0, 4, other), "another one has no room beside it");
    cr_assert(add_bytes("ac_two", 0, 0, other));
    shared_text_unref(&other);
    shared_text_unref(&module); /* the routes are gone */
    cr_assert_eq(wait->shared->at[0], big[0]);
    ask_wait_free(wait);
    ask_waits_expire(&waits);
    while (ask_waits_late(&waits, 0))
        ;
    cr_assert_eq(waits.count + waits.bytes, 0);
}

/* All of its parts, one behind the other. */
static size_t join(const ask_body_t *body, unsigned char *out)
{
    static unsigned char both[ASK_PART_MAX];
    const unsigned char *part;
    size_t at = 0, len;

    do {
        len = ask_body_part(body, at, both, &part);
        cr_assert_leq(len, ASK_PART_MAX);
        memcpy(out + at, part, len);
        at += len;
    } while (at < ask_body_total(body));
    return at;
}

Test(ask_waits, the_parts_of_a_body_are_its_bytes_and_then_what_is_shared)
{
    static const size_t lens[] = {0, 1, ASK_PART_MAX - 1, ASK_PART_MAX, ASK_PART_MAX + 1};
    static unsigned char whole[3 * ASK_PART_MAX], out[3 * ASK_PART_MAX];

    for (size_t i = 0; i < sizeof(whole); i++)
        whole[i] = (unsigned char)(i * 2654435761u >> 24);
    for (size_t one = 0; one < 5; one++)
        for (size_t other = 0; other < 5; other++) {
            shared_text_t *shared = shared_text_new((char *)whole + lens[one], lens[other]);
            ask_body_t body = {whole, lens[one], other ? shared : NULL};

            memset(out, 0, sizeof(out));
            cr_assert_eq(join(&body, out), lens[one] + lens[other]);
            cr_assert_arr_eq(out, whole, lens[one] + lens[other], "%zu %zu", one, other);
            shared_text_unref(&shared);
        }
}

Test(ask_waits, who_leaves_or_is_late_is_not_asked_for)
{
    for (int i = 0; i < 4; i++)
        cr_assert(add(i, "ac_one", 0));
    ask_waits_leave(&waits, &askers[1]);
    ask_waits_leave(&waits, &askers[1]);
    cr_assert_null(ask_waits_late(&waits, 999));
    cr_assert_eq(ask_waits_late(&waits, 1000), &askers[0]);
    cr_assert_null(ask_waits_late(&waits, 1000));
    cr_assert_eq(taken(), 2);
    ask_waits_expire(&waits);
    cr_assert_eq(ask_waits_late(&waits, 0), &askers[3]);
    cr_assert_null(waits.first);
    cr_assert_eq(waits.count + waits.bytes, 0);
}
