/* A request that a conflict ended is run again after a pause that is another one for each. */
#include "common/resource/retry.h"

#include <criterion/criterion.h>

Test(retry, waits_as_chance_has_it_and_no_longer_than_a_bound_that_grows_to_another)
{
    static const unsigned bounds_ms[] = {RETRY_FIRST_MS, 2 * RETRY_FIRST_MS, RETRY_MS, RETRY_MS};
    unsigned least, most, us;

    for (unsigned tries = 0; tries < sizeof(bounds_ms) / sizeof(*bounds_ms); tries++) {
        least = (unsigned)-1;
        most = 0;
        for (uint32_t chance = 0; chance < 1000; chance++) {
            us = retry_pause_us(tries, chance * 4294967u);
            least = us < least ? us : least;
            most = us > most ? us : most;
        }
        cr_assert_leq(most, bounds_ms[tries] * 1000);
        cr_assert_geq(most, bounds_ms[tries] * 900);
        cr_assert_geq(least, 1);
        cr_assert_leq(least, bounds_ms[tries] * 100);
    }
}

Test(retry, is_bounded_after_however_many_conflicts)
{
    cr_assert_leq(retry_pause_us((unsigned)-1, (uint32_t)-1), RETRY_MS * 1000);
    cr_assert_eq(retry_pause_us(0, 0), 1);
}
