/* Questions of an edge's worker to postern-identity: how many there may be, and whose. Time is
 * set. */
#include "services/edge/control/asks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static asks_t asks = {.client_percent = 100};
static int someone, other;

static uint64_t begin(const char *account)
{
    return asks_begin(&asks, &someone, account, strlen(account), 0, false, 1000);
}

Test(asks, a_question_is_answered_once)
{
    uint64_t number = begin("ac_one");

    cr_assert(number);
    cr_assert_eq(asks_end(&asks, number), &someone);
    cr_assert_null(asks_end(&asks, number), "its answer came twice");
    cr_assert_null(asks_end(&asks, 0));
    cr_assert_eq(asks.count, 0);
}

Test(asks, a_late_answer_is_not_that_of_the_question_that_has_its_place)
{
    uint64_t first = begin("ac_one"), second;

    asks_end(&asks, first);
    second = asks_begin(&asks, &other, "ac_two", 6, 0, false, 1000);
    cr_assert_neq(first, second);
    cr_assert_null(asks_end(&asks, first));
    cr_assert_eq(asks_end(&asks, second), &other);
}

Test(asks, an_account_has_its_share_only)
{
    uint64_t last = 0;

    for (int i = 0; i < ASKS_ACCOUNT_MAX; i++)
        cr_assert((last = begin("ac_one")));
    cr_assert_eq(begin("ac_one"), 0);
    cr_assert(begin("ac_two"));
    cr_assert(begin("ac_on"), "whose name begins alike");
    cr_assert(begin(""), "and what is of no account");
    asks_end(&asks, last);
    cr_assert(begin("ac_one"));
}

Test(asks, a_worker_has_its_share_only)
{
    char account[16];

    for (int i = 0; i < ASKS_MAX; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        cr_assert(begin(account));
    }
    cr_assert_eq(begin("ac_more"), 0);
}

Test(asks, who_comes_and_goes_asks_no_more_than_who_stays)
{
    for (int i = 0; i < ASKS_ACCOUNT_MAX; i++)
        asks_leave(&asks, begin("ac_one"));
    cr_assert_eq(begin("ac_one"), 0);
    for (uint64_t number; (number = asks_late(&asks, 1000));)
        cr_assert_null(asks_end(&asks, number), "nobody who left is called");
    cr_assert(begin("ac_one"));
}

Test(asks, a_question_is_over_at_its_time)
{
    uint64_t number = begin("ac_one");

    cr_assert_eq(asks_late(&asks, 999), 0);
    cr_assert_eq(asks_late(&asks, 1000), number);
    asks_leave(&asks, 12345);
    cr_assert_eq(asks_end(&asks, number), &someone);
    cr_assert_eq(asks_late(&asks, INT64_MAX), 0);
}

Test(asks, an_account_that_is_too_long_asks_nothing)
{
    char account[ASK_ACCOUNT_SIZE + 1];

    memset(account, 'a', sizeof(account));
    cr_assert_eq(asks_begin(&asks, &someone, account, ASK_ACCOUNT_SIZE, 0, false, 1), 0);
    cr_assert(asks_begin(&asks, &someone, account, ASK_ACCOUNT_SIZE - 1, 0, false, 1));
}

static uint64_t begin_slow(const char *account, uint32_t client)
{
    return asks_begin(&asks, &someone, account, strlen(account), client, true, 1000);
}

Test(asks, slow_ones_leave_half_of_an_account_to_the_others)
{
    uint64_t last = 0;

    for (uint32_t i = 0; i < ASKS_ACCOUNT_SLOW_MAX; i++)
        cr_assert((last = begin_slow("ac_one", i + 1)));
    cr_assert_eq(begin_slow("ac_one", 0), 0);
    cr_assert_not(asks_have_room(&asks, "ac_one", 6, 0, true));
    cr_assert(asks_have_room(&asks, "ac_one", 6, 0, false));
    cr_assert(asks_have_room(&asks, "ac_two", 6, 0, true));
    for (int i = ASKS_ACCOUNT_SLOW_MAX; i < ASKS_ACCOUNT_MAX; i++)
        cr_assert(begin("ac_one"), "a sign-out, while its provider does not answer");
    cr_assert_eq(begin("ac_one"), 0);
    asks_end(&asks, last);
    cr_assert(begin_slow("ac_one", 0));
}

Test(asks, slow_ones_leave_half_of_all_to_the_others)
{
    char account[16];
    int count = 0;

    for (int i = 0; i < 1000; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        count += begin_slow(account, 0) != 0;
    }
    cr_assert_eq(count, ASKS_SLOW_MAX);
    for (int i = 0; i < ASKS_MAX - ASKS_SLOW_MAX; i++) {
        snprintf(account, sizeof(account), "ac_quick%d", i);
        cr_assert(begin(account), "%s", account);
    }
}

/* Begins as many as there is room for. */
static int begin_all(const char *account, uint32_t client, unsigned kind)
{
    int count = 0;

    while (asks_begin(&asks, &someone, account, strlen(account), client, kind, 1000))
        count++;
    return count;
}

Test(asks, accounts_that_take_all_that_they_can_leave_some)
{
    static const unsigned kinds[] = {0, ASK_SLOW, ASK_MACHINE, ASK_MACHINE | ASK_SLOW};

    for (int kind = 0; kind < 4; kind++) {
        asks = (asks_t){.client_percent = 100};
        for (int i = 0; i < 8; i++) {
            char account[16];

            snprintf(account, sizeof(account), "ac_%d", i);
            cr_assert_gt(begin_all(account, 0, kinds[kind]), 0);
        }
        cr_assert_gt(begin_all("ac_other", 0, kinds[kind]), 0);
        for (int i = 0; i < 4; i++) {
            char account[16];

            snprintf(account, sizeof(account), "ac_few%d", i);
            cr_assert(asks_begin(&asks, &someone, account, strlen(account), 0, kinds[kind], 1));
        }
    }
}

Test(asks, a_client_of_many_accounts_leaves_most_to_others)
{
    static const struct {
        unsigned kind;
        int all;
    } cases[] = {{0, ASKS_MAX}, {ASK_SLOW, ASKS_SLOW_MAX}, {ASK_MACHINE, ASKS_MACHINES_MAX}};

    for (int kind = 0; kind < 3; kind++) {
        int count = 0, others = 0;

        asks = (asks_t){.client_percent = 100};
        for (int i = 0; i < 100; i++) {
            char account[16];

            snprintf(account, sizeof(account), "ac_%d", i);
            count += begin_all(account, 7, cases[kind].kind);
        }
        cr_assert_leq(count, cases[kind].all * 4 / 10, "%d", count);
        cr_assert_geq(count, cases[kind].all / 4, "it may be many people: %d", count);
        cr_assert_not(asks_have_room(&asks, "ac_x", 4, 7, cases[kind].kind));
        for (uint32_t i = 0; i < 8; i++)
            others += begin_all("ac_1", 100 + i, cases[kind].kind) != 0;
        cr_assert_gt(others, 0, "others of an account of which it has its share");
        cr_assert(asks_have_room(&asks, "ac_x", 4, 8, cases[kind].kind));
        cr_assert(asks_have_room(&asks, "ac_x", 4, 0, cases[kind].kind), "nobody in particular");
    }
}

Test(asks, a_client_that_speaks_for_many_may_have_more)
{
    int count = 0;

    asks.client_percent = 10000;
    for (int i = 0; i < 16; i++) {
        char account[16];

        snprintf(account, sizeof(account), "ac_%d", i);
        count += begin_all(account, 7, 0);
    }
    cr_assert_gt(count, ASKS_MAX * 7 / 10);
    asks.client_percent = 100;
}

Test(asks, an_account_has_less_when_less_than_half_is_free)
{
    char account[16];
    int count;

    for (int i = 0; i <= ASKS_MAX / 2; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        cr_assert(begin(account));
    }
    count = begin_all("ac_one", 0, 0);
    cr_assert(count > ASKS_MAX / 16 && count <= ASKS_MAX / 8, "%d", count);
}

Test(asks, a_client_has_no_more_than_half_of_the_slow_ones_of_its_account)
{
    int count = 0;

    while (begin_slow("ac_one", 7))
        count++;
    cr_assert_eq(count, ASKS_CLIENT_MAX);
    for (int i = 0; i < ASKS_CLIENT_SLOW_FEW; i++)
        cr_assert(begin_slow("ac_one", 8), "%d", i);
    cr_assert_eq(begin_slow("ac_one", 8), 0, "from half of them on each has few");
    cr_assert(begin_slow("ac_one", 9));
    cr_assert(begin_slow("ac_one", 0));
    cr_assert(begin_slow("ac_two", 7), "of another account it is another client");
}

Test(asks, a_client_has_a_quarter_of_what_its_account_may_ask)
{
    int count = 0;

    while (asks_begin(&asks, &someone, "ac_one", 6, 7, false, 1000))
        count++;
    cr_assert_eq(count, ASKS_CLIENT_MAX);
    cr_assert_not(asks_have_room(&asks, "ac_one", 6, 7, false));
    cr_assert(asks_have_room(&asks, "ac_one", 6, 8, false));
    cr_assert(asks_begin(&asks, &someone, "ac_one", 6, 7, true, 1000),
              "slow ones are by themselves");
    cr_assert(begin("ac_one"), "what nobody in particular asks");
}

static uint64_t begin_machine(const char *account, uint32_t client, unsigned more)
{
    return asks_begin(&asks, &someone, account, strlen(account), client, ASK_MACHINE | more, 1000);
}

Test(asks, machines_have_a_share_of_their_own_and_each_client_half_of_it)
{
    int count = 0;
    uint64_t last = 0, one;

    while ((one = begin_machine("ac_one", 7, count % 2 ? ASK_SLOW : 0))) {
        last = one;
        count++;
    }
    cr_assert_eq(count, ASKS_CLIENT_MACHINES_MAX);
    for (; count < ASKS_ACCOUNT_MACHINES_MAX; count++)
        cr_assert(begin_machine("ac_one", 8 + (uint32_t)count, ASK_SLOW));
    cr_assert_eq(begin_machine("ac_one", 100, 0), 0);
    cr_assert_not(asks_have_room(&asks, "ac_one", 6, 0, ASK_MACHINE));
    cr_assert(begin_machine("ac_two", 7, 0), "of another account");
    cr_assert(begin_slow("ac_one", 9), "people sign in meanwhile");
    cr_assert(begin("ac_one"));
    asks_end(&asks, last);
    cr_assert_eq(begin_machine("ac_one", 7, 0), 0, "its others have half of it");
    cr_assert(begin_machine("ac_one", 200, 0), "who has none");
}

Test(asks, few_clients_leave_some_of_their_account_to_the_next_one)
{
    static const unsigned kinds[] = {0, ASK_SLOW, ASK_MACHINE};

    for (int kind = 0; kind < 3; kind++) {
        uint32_t clients = kinds[kind] & ASK_MACHINE ? 3 : 4;

        asks = (asks_t){.client_percent = 100};
        for (uint32_t client = 1; client <= clients; client++)
            cr_assert_gt(begin_all("ac_one", client, kinds[kind]), 0, "%u", client);
        cr_assert(asks_have_room(&asks, "ac_one", 6, 9, kinds[kind]), "kind %d", kind);
    }
}

/* Questions of another account until more than half of those of that kind are under way. */
static void begin_half(unsigned kind)
{
    char account[16];

    for (int i = 0; i <= (kind ? ASKS_SLOW_MAX : ASKS_MAX) / 2; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        cr_assert(asks_begin(&asks, &someone, account, strlen(account), 0, kind, 1000));
    }
}

Test(asks, few_clients_leave_some_of_their_account_to_the_next_one_when_it_may_have_less)
{
    static const unsigned kinds[] = {0, ASK_SLOW, ASK_MACHINE};

    for (int kind = 0; kind < 3; kind++) {
        asks = (asks_t){.client_percent = 100};
        begin_half(kinds[kind]);
        for (uint32_t client = 1; client <= 3; client++)
            cr_assert_gt(begin_all("ac_one", client, kinds[kind]), 0, "%u", client);
        cr_assert(asks_have_room(&asks, "ac_one", 6, 4, kinds[kind]), "kind %d", kind);
        cr_assert(asks_have_room(&asks, "ac_two", 6, 1, kinds[kind]));
    }
}

Test(asks, a_network_of_many_clients_leaves_some_to_others)
{
    static const unsigned kinds[] = {0, ASK_SLOW, ASK_MACHINE};
    char account[16];

    for (int kind = 0; kind < 3; kind++) {
        int count = 0;

        asks = (asks_t){.client_percent = 100};
        for (uint32_t client = 1; client <= 200; client++) {
            snprintf(account, sizeof(account), "ac_%u", client);
            count += begin_all(account, 1 << 16 | client, kinds[kind]);
        }
        cr_assert_leq(count, (kinds[kind] ? ASKS_SLOW_MAX : ASKS_MAX) * 62 / 100, "%d", count);
        cr_assert_not(asks_have_room(&asks, "ac_x", 4, 1 << 16 | 999, kinds[kind]));
        cr_assert(asks_have_room(&asks, "ac_x", 4, 2 << 16 | 999, kinds[kind]));
    }
}

Test(asks, a_network_of_many_clients_leaves_some_of_its_account_to_others)
{
    static const struct {
        unsigned kind;
        int own;
    } cases[] = {{0, ASKS_ACCOUNT_MAX},
                 {ASK_SLOW, ASKS_ACCOUNT_SLOW_MAX},
                 {ASK_MACHINE, ASKS_ACCOUNT_MACHINES_MAX}};

    for (int kind = 0; kind < 3; kind++)
        for (int half = 0; half < 2; half++) {
            int count = 0;

            asks = (asks_t){.client_percent = 100};
            if (half)
                begin_half(cases[kind].kind);
            for (uint32_t client = 1; client <= 200; client++)
                count += begin_all("ac_one", 1 << 16 | client, cases[kind].kind);
            cr_assert_gt(count, cases[kind].own / 5, "kind %d: %d", kind, count);
            cr_assert_lt(count, cases[kind].own * 3 / 4, "kind %d: %d", kind, count);
            cr_assert_not(asks_have_room(&asks, "ac_one", 6, 1 << 16 | 999, cases[kind].kind));
            cr_assert(asks_have_room(&asks, "ac_one", 6, 2 << 16 | 1, cases[kind].kind));
            cr_assert(asks_have_room(&asks, "ac_one", 6, 0, cases[kind].kind));
        }
}
