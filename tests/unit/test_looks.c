/* A queue of timed looks. */
#include "services/edge/http/looks.h"

#include <criterion/criterion.h>

enum { PERIOD_MS = 60000 };

static looks_t queue;

static void a_queue(void)
{
    looks_init(&queue, PERIOD_MS);
}

TestSuite(looks, .init = a_queue);

Test(looks, each_is_looked_at_once_in_a_period_in_the_order_in_which_they_came)
{
    look_t first = {0}, second = {0};

    looks_watch(&queue, &first, 1000);
    looks_watch(&queue, &second, 2000);
    cr_assert_null(looks_due(&queue, 1000 + PERIOD_MS - 1));
    cr_assert_eq(looks_due(&queue, 1000 + PERIOD_MS), &first);
    cr_assert_null(looks_due(&queue, 1000 + PERIOD_MS), "it was looked at, and the other is young");
    cr_assert_eq(looks_due(&queue, 2000 + PERIOD_MS), &second);
    cr_assert_null(looks_due(&queue, 1000 + 2 * PERIOD_MS - 1));
    cr_assert_eq(looks_due(&queue, 1000 + 2 * PERIOD_MS), &first, "and once in the next period");
}

Test(looks, a_pass_that_comes_late_looks_at_each_once_and_ends)
{
    look_t all[3] = {{0}};

    for (int i = 0; i < 3; i++)
        looks_watch(&queue, &all[i], 1000 * i);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(looks_due(&queue, 10 * PERIOD_MS), &all[i]);
    cr_assert_null(looks_due(&queue, 10 * PERIOD_MS));
    cr_assert_null(looks_due(&queue, 11 * PERIOD_MS - 1), "the period begins with the look");
    cr_assert_eq(looks_due(&queue, 11 * PERIOD_MS), &all[0]);
}

Test(looks, what_is_forgotten_is_looked_at_no_more_and_may_be_watched_again)
{
    look_t first = {0}, second = {0};

    looks_watch(&queue, &first, 0);
    looks_watch(&queue, &second, 0);
    cr_assert(look_is_watched(&first));
    looks_forget(&first);
    looks_forget(&first);
    cr_assert_not(look_is_watched(&first));
    cr_assert_eq(looks_due(&queue, PERIOD_MS), &second);
    cr_assert_null(looks_due(&queue, PERIOD_MS));
    looks_watch(&queue, &first, PERIOD_MS + 1);
    cr_assert_eq(looks_due(&queue, 2 * PERIOD_MS), &second);
    cr_assert_null(looks_due(&queue, 2 * PERIOD_MS));
    cr_assert_eq(looks_due(&queue, 2 * PERIOD_MS + 1), &first);
}

Test(looks, a_look_may_end_what_it_looks_at_and_all_others)
{
    look_t all[4] = {{0}}, *look;
    int seen = 0;

    for (int i = 0; i < 4; i++)
        looks_watch(&queue, &all[i], 0);
    while ((look = looks_due(&queue, PERIOD_MS))) {
        seen++;
        looks_forget(look);
        looks_forget(&all[1]);
        looks_forget(&all[2]);
    }
    cr_assert_eq(seen, 2, "of four the second and the third were ended by the first: %d", seen);
    cr_assert_eq(looks_wait_ms(&queue, PERIOD_MS), 0, "nothing is left");
}

Test(looks, what_is_watched_during_a_pass_waits_for_a_period_of_its_own)
{
    look_t first = {0}, more = {0};

    looks_watch(&queue, &first, 0);
    cr_assert_eq(looks_due(&queue, PERIOD_MS), &first);
    looks_watch(&queue, &more, PERIOD_MS);
    cr_assert_null(looks_due(&queue, PERIOD_MS));
    cr_assert_eq(looks_due(&queue, 2 * PERIOD_MS), &first);
    cr_assert_eq(looks_due(&queue, 2 * PERIOD_MS), &more);
}

Test(looks, the_next_pass_is_when_the_first_is_due_but_never_at_once)
{
    look_t first = {0}, second = {0};

    cr_assert_eq(looks_wait_ms(&queue, 0), 0, "nothing is watched");
    looks_watch(&queue, &first, 0);
    looks_watch(&queue, &second, 500);
    cr_assert_eq(looks_wait_ms(&queue, 0), PERIOD_MS);
    cr_assert_eq(looks_wait_ms(&queue, 1000), PERIOD_MS - 1000);
    cr_assert_eq(looks_wait_ms(&queue, PERIOD_MS - 1), LOOKS_PAUSE_MS);
    cr_assert_eq(looks_wait_ms(&queue, 5 * PERIOD_MS), LOOKS_PAUSE_MS, "the pass is late");
    looks_forget(&first);
    looks_forget(&second);
    cr_assert_eq(looks_wait_ms(&queue, 5 * PERIOD_MS), 0);
}

Test(looks, passes_over_a_queue_with_a_short_period_are_as_far_apart_as_that)
{
    look_t look = {0};

    looks_init(&queue, 250);
    looks_watch(&queue, &look, 0);
    cr_assert_eq(looks_wait_ms(&queue, 0), 250);
    cr_assert_eq(looks_wait_ms(&queue, 200), 250);
}
