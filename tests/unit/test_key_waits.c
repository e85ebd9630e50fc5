/* Logout tokens that wait for a provider's keys: few of an account, and nobody's for others. */
#include "services/identity/key_waits.h"

#include <criterion/criterion.h>

Test(key_waits, few_of_an_account_wait_at_a_time)
{
    key_wait_t waits[KEY_WAITS_MAX + 1] = {{0}}, other = {0};

    for (int i = 0; i < KEY_WAITS_MAX; i++)
        cr_assert(key_wait_take(&waits[i], "ac_one"));
    cr_assert_not(key_wait_take(&waits[KEY_WAITS_MAX], "ac_one"));
    cr_assert_not(key_wait_take(&waits[KEY_WAITS_MAX], "ac_one"), "who is refused takes no place");
    cr_assert(key_wait_take(&waits[0], "ac_one"), "who waits goes on");
    cr_assert(key_wait_take(&other, "ac_two"));
    key_wait_done(&waits[KEY_WAITS_MAX]);
    cr_assert_not(key_wait_take(&waits[KEY_WAITS_MAX], "ac_one"));
    key_wait_done(&waits[0]);
    key_wait_done(&waits[0]);
    cr_assert(key_wait_take(&waits[KEY_WAITS_MAX], "ac_one"));
    cr_assert_not(key_wait_take(&waits[0], "ac_one"));
}
