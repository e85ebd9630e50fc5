/* Requests a minute. */
#include "services/gateway/rate.h"

#include <criterion/criterion.h>

static int take_many(rates_t *rates, const char *bucket, long limit, int64_t now_ms, int n)
{
    int taken = 0;

    for (int i = 0; i < n; i++)
        taken += !rates_take(rates, bucket, limit, now_ms);
    return taken;
}

Test(rate, a_burst_of_the_whole_minute_then_as_it_flows)
{
    rates_t *rates = rates_new();

    cr_assert_eq(take_many(rates, "a", 60, 1000, 100), 60);
    cr_assert_eq(take_many(rates, "a", 60, 1999, 10), 0);
    cr_assert_eq(take_many(rates, "a", 60, 2000, 10), 1);
    cr_assert_eq(take_many(rates, "a", 60, 12000, 100), 10);
    cr_assert_eq(take_many(rates, "a", 60, 1000000, 100), 60,
                 "no more than a minute's is saved up");
    rates_destroy(&rates);
}

Test(rate, says_how_long_to_wait)
{
    rates_t *rates = rates_new();
    int wait;

    cr_assert_eq(rates_take(rates, "a", 2, 0), 0);
    cr_assert_eq(rates_take(rates, "a", 2, 0), 0);
    wait = rates_take(rates, "a", 2, 0);
    cr_assert_eq(wait, 30);
    cr_assert_neq(rates_take(rates, "a", 2, 29000), 0,
                  "asking again makes it neither shorter nor longer");
    cr_assert_eq(rates_take(rates, "a", 2, wait * 1000), 0, "who waits as told gets one");
    cr_assert_geq(rates_take(rates, "a", 10000000, wait * 1000), 0, "never less than none");
    rates_destroy(&rates);
}

Test(rate, everyone_has_a_bucket)
{
    rates_t *rates = rates_new();

    cr_assert_eq(take_many(rates, "a", 5, 0, 10), 5);
    cr_assert_eq(take_many(rates, "b", 5, 0, 10), 5);
    cr_assert_eq(take_many(rates, "b vault", 5, 0, 10), 5);
    rates_destroy(&rates);
}

Test(rate, no_limit_keeps_nothing)
{
    rates_t *rates = rates_new();

    cr_assert_eq(take_many(rates, "a", 0, 0, 1000), 1000);
    cr_assert_eq(rates_count(rates), 0);
    rates_destroy(&rates);
}

Test(rate, forgets_what_is_full_again_and_nothing_else)
{
    rates_t *rates = rates_new();

    take_many(rates, "old", 5, 0, 5);
    take_many(rates, "new", 5, 30000, 5);
    rates_forget_full(rates, 59999);
    cr_assert_eq(rates_count(rates), 2);
    rates_forget_full(rates, 60000);
    cr_assert_eq(rates_count(rates), 1);
    cr_assert_eq(take_many(rates, "new", 5, 60000, 10), 2, "half a minute's");
    cr_assert_eq(take_many(rates, "old", 5, 60000, 10), 5);
    rates_destroy(&rates);
}
