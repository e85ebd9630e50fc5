/* Whose turn it is to search a header by expressions. */
#include "services/edge/modules/searches.h"

#include <criterion/criterion.h>

static searches_t searches;

/* Those that search in one turn, in their order, when each search takes so long. */
static size_t run_turn(uint64_t us, search_wait_t **ret_waits)
{
    search_wait_t *wait;
    size_t count = 0;

    searches_begin_turn(&searches);
    while ((wait = searches_next(&searches))) {
        ret_waits[count++] = wait;
        searches_spend(&searches, us);
    }
    return count;
}

Test(searches, go_on_at_once_until_the_turns_time_is_spent)
{
    cr_assert(searches_may(&searches));
    cr_assert(searches_spend(&searches, SEARCHES_TURN_US - 1), "the first asks for a new turn");
    cr_assert(searches_may(&searches));
    cr_assert_not(searches_spend(&searches, 1));
    cr_assert_not(searches_may(&searches));
    searches_begin_turn(&searches);
    cr_assert(searches_may(&searches));
}

Test(searches, nobody_overtakes_those_that_wait)
{
    search_wait_t wait = {0};

    searches_wait(&searches, &wait, 7);
    cr_assert_not(searches_may(&searches));
    searches_begin_turn(&searches);
    cr_assert_not(searches_may(&searches), "a new turn is theirs first");
    cr_assert_eq(searches_next(&searches), &wait);
    cr_assert(searches_may(&searches));
}

Test(searches, a_turn_ends_with_the_search_that_spends_it)
{
    search_wait_t waits[100] = {{0}}, *ran[100];

    for (int i = 0; i < 100; i++)
        searches_wait(&searches, &waits[i], 7);
    cr_assert_eq(run_turn(20000, ran), 1, "one long one");
    cr_assert_eq(ran[0], &waits[0]);
    cr_assert_eq(run_turn(SEARCHES_TURN_US / 4, ran), 4, "four shorter ones");
    cr_assert_eq(ran[3], &waits[4], "in the order in which they came");
    cr_assert_eq(run_turn(0, ran), 95);
    cr_assert_not(searches_are_awaited(&searches));
}

Test(searches, an_account_with_many_delays_its_own)
{
    search_wait_t flood[1000] = {{0}}, other = {0}, third = {0}, *ran[10];

    for (int i = 0; i < 1000; i++)
        searches_wait(&searches, &flood[i], 7);
    searches_wait(&searches, &other, 8);
    searches_wait(&searches, &third, 9);
    cr_assert_eq(run_turn(SEARCHES_TURN_US, ran), 1);
    cr_assert_eq(ran[0], &flood[0]);
    cr_assert_eq(run_turn(SEARCHES_TURN_US, ran), 1);
    cr_assert_eq(ran[0], &other);
    cr_assert_eq(run_turn(SEARCHES_TURN_US, ran), 1);
    cr_assert_eq(ran[0], &third);
    cr_assert_eq(run_turn(SEARCHES_TURN_US, ran), 1);
    cr_assert_eq(ran[0], &flood[1]);
}

Test(searches, who_is_gone_is_not_waited_for)
{
    search_wait_t waits[3] = {{0}}, alone = {0}, *ran[4];

    for (int i = 0; i < 3; i++)
        searches_wait(&searches, &waits[i], 7);
    searches_wait(&searches, &alone, 8);
    searches_leave(&searches, &waits[1]);
    searches_leave(&searches, &alone);
    searches_leave(&searches, &alone);
    cr_assert_eq(run_turn(0, ran), 2);
    cr_assert(ran[0] == &waits[0] && ran[1] == &waits[2]);
    searches_wait(&searches, &waits[1], 8);
    cr_assert_eq(searches_next(&searches), &waits[1], "and may come again");
}
