/* Lines that somebody outside causes: so many a minute of each account, and none is left out without
 * being counted. */
#include "common/base/log_bound.h"

#include <criterion/criterion.h>

enum { NOW = 1000 };

static int admitted(log_bound_t *self, const char *account, int lines, int64_t now_ms)
{
    uint64_t left_out;
    int n = 0;

    for (int i = 0; i < lines; i++)
        n += log_bound_admits(self, account, now_ms, &left_out);
    return n;
}

Test(log_bound, so_many_lines_a_minute_and_then_none)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};

    cr_assert_eq(admitted(&self, "ac_1", 10 * LOG_BOUND_LINES, NOW), LOG_BOUND_LINES);
    cr_assert_eq(admitted(&self, "ac_1", 1, NOW + LOG_BOUND_MS - 1), 0);
    cr_assert_eq(admitted(&self, "ac_1", 2, NOW + LOG_BOUND_MS), 2);
}

Test(log_bound, those_that_were_left_out_are_said_once_with_the_next_line)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t left_out = 1;

    cr_assert(log_bound_admits(&self, "ac_1", NOW, &left_out));
    cr_assert_eq(left_out, 0);
    admitted(&self, "ac_1", LOG_BOUND_LINES + 6, NOW);
    cr_assert(log_bound_admits(&self, "ac_1", NOW + LOG_BOUND_MS, &left_out));
    cr_assert_eq(left_out, 7);
    cr_assert(log_bound_admits(&self, "ac_1", NOW + LOG_BOUND_MS, &left_out));
    cr_assert_eq(left_out, 0);
}

Test(log_bound, one_accounts_lines_do_not_hide_anothers)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};

    admitted(&self, "ac_loud", 10 * LOG_BOUND_LINES, NOW);
    cr_assert_eq(admitted(&self, "ac_quiet", LOG_BOUND_LINES, NOW), LOG_BOUND_LINES);
    cr_assert_eq(admitted(&self, "", 1, NOW), 1, "nor those of none");
}
