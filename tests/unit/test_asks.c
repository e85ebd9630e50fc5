/* Questions of an edge's worker to postern-identity: how many there may be, and whose. Time is
 * set. */
#include "services/edge/control/asks.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static asks_t asks;
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
        snprintf(account, sizeof(account), "ac_%d", i);
        cr_assert(begin(account), "%s", account);
    }
}

Test(asks, who_has_many_leaves_some_when_few_are_left)
{
    char account[16];

    for (int i = 0; i < ASKS_SLOW_MAX / 2 + 1; i++) {
        snprintf(account, sizeof(account), "ac_%d", i % 4);
        cr_assert(begin_slow(account, 0), "%d", i);
    }
    for (int i = 0; i < 4; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        while (begin_slow(account, 0))
            ;
    }
    for (int i = 0; i < ASKS_SLOW_MAX / ASKS_SHARE; i++)
        cr_assert(begin_slow("ac_other", 0), "%d: four accounts do not have them all", i);
    cr_assert_eq(begin_slow("ac_other", 0), 0);
}

Test(asks, an_account_has_an_eighth_when_less_than_half_is_free)
{
    char account[16];
    int count = 0;

    for (int i = 0; i <= ASKS_MAX / 2; i++) {
        snprintf(account, sizeof(account), "ac_%d", i);
        cr_assert(begin(account));
    }
    while (begin("ac_one"))
        count++;
    cr_assert_eq(count, ASKS_MAX / ASKS_SHARE);
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
    cr_assert(begin_machine("ac_one", 7, 0));
}
