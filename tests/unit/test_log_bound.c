/* Lines that somebody outside causes: so many a minute of each kind and account, and none is left
 * out without being counted, and said under its own kind. */
#include "common/base/log_bound.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { NOW = 1000, LINES = 60, LATER = NOW + LOG_BOUND_MS };

static log_bound_t bound = {.lock = PTHREAD_MUTEX_INITIALIZER, .most = LINES};
static log_left_out_t left_out;

static int admitted(const char *kind, int lines, int64_t now_ms)
{
    int n = 0;

    for (int i = 0; i < lines; i++)
        n += log_bound_admits(&bound, kind, now_ms);
    return n;
}

Test(log_bound, so_many_lines_a_minute_and_then_none)
{
    cr_assert_eq(admitted("ac_1", 10 * LINES, NOW), LINES);
    cr_assert_eq(admitted("ac_1", 1, LATER - 1), 0);
    cr_assert_eq(admitted("ac_1", 2, LATER), 2);
}

Test(log_bound, those_that_were_left_out_are_said_once_when_their_minute_is_over)
{
    cr_assert_eq(admitted("ac_1", 1, NOW), 1);
    cr_assert_not(log_bound_left_out(&bound, LATER, &left_out));
    admitted("ac_1", LINES + 6, NOW);
    cr_assert_not(log_bound_left_out(&bound, LATER - 1, &left_out));
    cr_assert_not(log_bound_left_out(&bound, LATER, &left_out), "it was looked a moment ago");
    cr_assert(log_bound_left_out(&bound, LATER + LOG_BOUND_LOOK_MS, &left_out));
    cr_assert_eq(left_out.lines, 7);
    cr_assert_str_eq(left_out.kind, "ac_1");
    cr_assert_not(log_bound_left_out(&bound, LATER + 100 * LOG_BOUND_LOOK_MS, &left_out));
    cr_assert_eq(bound.telling, 0);
}

Test(log_bound, those_of_a_kind_that_goes_on_are_said_too)
{
    admitted("ac_1", LINES + 7, NOW);
    admitted("ac_1", LINES + 5, LATER);
    cr_assert(log_bound_left_out(&bound, LATER, &left_out));
    cr_assert_eq(left_out.lines, 7);
    cr_assert_not(log_bound_left_out(&bound, LATER, &left_out));
    admitted("ac_1", 1, LATER + LOG_BOUND_MS);
    cr_assert(log_bound_left_out(&bound, LATER + LOG_BOUND_MS, &left_out));
    cr_assert_eq(left_out.lines, 5);
    cr_assert_eq(bound.telling, 0);
}

Test(log_bound, each_kind_is_said_for_itself_though_its_time_is_over_and_others_came)
{
    char kind[64];
    int said = 0;

    for (int i = 0; i < 300; i++) {
        snprintf(kind, sizeof(kind), "ac_%d session.check SESSION_GONE", i);
        admitted(kind, LINES + 1 + i, NOW);
    }
    for (int i = 0; i < 10 * LOG_BOUND_SHARES; i++) {
        snprintf(kind, sizeof(kind), "ac_new_%d", i);
        admitted(kind, 1, LATER);
    }
    while (log_bound_left_out(&bound, LATER, &left_out)) {
        if (strcmp(left_out.kind, LOG_BOUND_OTHERS) == 0)
            continue;
        snprintf(kind, sizeof(kind), "ac_%d session.check SESSION_GONE", (int)left_out.lines - 1);
        cr_assert_str_eq(left_out.kind, kind);
        said++;
    }
    cr_assert_eq(said, 300);
}

/* As many accounts as there may be at once on a large installation: none has the share of another. */
Test(log_bound, the_lines_of_one_hide_no_others)
{
    char kind[64];

    admitted("ac_loud session.check SESSION_GONE", 10 * LINES, NOW);
    cr_assert_eq(admitted("ac_loud bearer_token.check SESSION_GONE", LINES, NOW), LINES);
    for (int i = 0; i < 300; i++) {
        snprintf(kind, sizeof(kind), "ac_%d session.check SESSION_GONE", i);
        cr_assert_eq(admitted(kind, LINES, NOW), LINES, "%s", kind);
    }
}

Test(log_bound, where_there_are_too_many_kinds_the_last_share_one_and_all_are_counted)
{
    int kinds = 10 * LOG_BOUND_SHARES, lines = 0;
    uint64_t all = 0, others = 0;
    char kind[64];

    for (int i = 0; i < kinds; i++) {
        snprintf(kind, sizeof(kind), "ac_%d session.check SESSION_GONE", i);
        lines += admitted(kind, LINES + 1, NOW);
    }
    cr_assert_leq(lines, LINES * LOG_BOUND_SHARES);
    while (log_bound_left_out(&bound, LATER, &left_out)) {
        all += left_out.lines;
        others += strcmp(left_out.kind, LOG_BOUND_OTHERS) == 0;
    }
    cr_assert_eq(all, (uint64_t)(kinds * (LINES + 1) - lines));
    cr_assert_eq(others, LOG_BOUND_SETS);
    cr_assert_eq(bound.telling, 0);
}

Test(log_bound, a_kind_that_is_too_long_has_a_share_of_its_own_and_is_said_so_far)
{
    char one[2 * LOG_BOUND_KIND_SIZE], other[2 * LOG_BOUND_KIND_SIZE];

    memset(one, 'a', sizeof(one));
    one[sizeof(one) - 1] = '\0';
    memcpy(other, one, sizeof(one));
    other[sizeof(one) - 2] = 'b';
    cr_assert_eq(admitted(one, LINES + 1, NOW), LINES);
    cr_assert_eq(admitted(other, LINES, NOW), LINES);
    cr_assert(log_bound_left_out(&bound, LATER, &left_out));
    cr_assert_eq(left_out.lines, 1);
    cr_assert_eq(strlen(left_out.kind), LOG_BOUND_KIND_SIZE - 1);
    cr_assert_eq(strncmp(left_out.kind, one, LOG_BOUND_KIND_SIZE - 1), 0);
}
