/* Lines that somebody outside causes: so many a minute of each kind and account, and none is left
 * out without being counted. */
#include "common/base/log_bound.h"

#include <criterion/criterion.h>
#include <stdio.h>

enum { NOW = 1000, LINES = 60 };

static int admitted(log_bound_t *self, const char *kind, int lines, int64_t now_ms)
{
    uint64_t left_out;
    int n = 0;

    for (int i = 0; i < lines; i++)
        n += log_bound_admits(self, kind, LINES, now_ms, &left_out);
    return n;
}

Test(log_bound, so_many_lines_a_minute_and_then_none)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};

    cr_assert_eq(admitted(&self, "ac_1", 10 * LINES, NOW), LINES);
    cr_assert_eq(admitted(&self, "ac_1", 1, NOW + LOG_BOUND_MS - 1), 0);
    cr_assert_eq(admitted(&self, "ac_1", 2, NOW + LOG_BOUND_MS), 2);
}

Test(log_bound, those_that_were_left_out_are_said_once_with_the_next_line)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    uint64_t left_out = 1;

    cr_assert(log_bound_admits(&self, "ac_1", LINES, NOW, &left_out));
    cr_assert_eq(left_out, 0);
    admitted(&self, "ac_1", LINES + 6, NOW);
    cr_assert(log_bound_admits(&self, "ac_1", LINES, NOW + LOG_BOUND_MS, &left_out));
    cr_assert_eq(left_out, 7);
    cr_assert(log_bound_admits(&self, "ac_1", LINES, NOW + LOG_BOUND_MS, &left_out));
    cr_assert_eq(left_out, 0);
}

/* As many accounts as there may be at once on a large installation: none has the share of another. */
Test(log_bound, the_lines_of_one_hide_no_others)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    char kind[64];

    admitted(&self, "ac_loud session.check 238", 10 * LINES, NOW);
    cr_assert_eq(admitted(&self, "ac_loud bearer_token.check 238", LINES, NOW), LINES);
    for (int i = 0; i < 300; i++) {
        snprintf(kind, sizeof(kind), "ac_%d session.check 238", i);
        cr_assert_eq(admitted(&self, kind, LINES, NOW), LINES, "%s", kind);
    }
}

Test(log_bound, where_there_are_too_many_kinds_the_last_share_one_and_all_are_counted)
{
    log_bound_t self = {.lock = PTHREAD_MUTEX_INITIALIZER};
    int kinds = 10 * LOG_BOUND_SETS * LOG_BOUND_WAYS, lines = 0;
    uint64_t left_out, all = 0;
    char kind[64];

    for (int i = 0; i < kinds; i++) {
        snprintf(kind, sizeof(kind), "ac_%d session.check 238", i);
        lines += admitted(&self, kind, LINES, NOW);
    }
    cr_assert_leq(lines, LINES * LOG_BOUND_SETS * LOG_BOUND_WAYS);
    for (int i = 0; i < kinds; i++) {
        snprintf(kind, sizeof(kind), "ac_%d session.check 238", i);
        if (log_bound_admits(&self, kind, LINES, NOW + LOG_BOUND_MS, &left_out))
            all += left_out;
        else
            all++;
    }
    for (int i = 0; i < LOG_BOUND_SETS; i++)
        all += self.shares[i][0].left_out;
    cr_assert_geq(all, (uint64_t)(kinds * LINES - lines));
}
