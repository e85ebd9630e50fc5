/* Whether a client takes an answer fast enough. */
#include "services/edge/http/pace.h"

#include <criterion/criterion.h>

enum { PERIOD = 60000, LOOK = 15000, LEAST = 4096, MB = 1 << 20 };

static const pace_rule_t rule = {.period_ms = PERIOD, .least = LEAST};
static pace_t answer;
static pace_look_t now;

static void an_answer(void)
{
    answer = (pace_t){0};
    now = (pace_look_t){.now_ms = 1};
}

TestSuite(pace, .init = an_answer);

static unsigned later(int64_t ms)
{
    now.now_ms += ms;
    return pace_judge(&answer, &now, &rule);
}

/* Looks until a verdict, at most so many periods: how many milliseconds that took; -1: none. */
static int64_t verdict_after(unsigned *verdict, int periods, int64_t taken, int64_t carried)
{
    int64_t began = now.now_ms;

    while (now.now_ms - began < (int64_t)periods * PERIOD) {
        now.taken += taken;
        now.carried += carried;
        *verdict = later(LOOK);
        if (*verdict)
            return now.now_ms - began;
    }
    return -1;
}

Test(pace, who_takes_nothing_is_cut_off_with_the_connection_when_the_period_is_over)
{
    cr_assert_eq(later(0), PACE_GOES_ON, "it begins to wait");
    cr_assert_eq(later(PERIOD - 1), PACE_GOES_ON);
    cr_assert_eq(later(1), PACE_CUT | PACE_FORCE);
}

Test(pace, who_takes_enough_in_each_period_goes_on)
{
    unsigned verdict;

    cr_assert_eq(later(0), PACE_GOES_ON);
    cr_assert_eq(verdict_after(&verdict, 100, LEAST / 4, LEAST / 4), -1);
}

Test(pace, who_takes_a_byte_now_and_then_is_cut_off)
{
    unsigned verdict;

    cr_assert_eq(later(0), PACE_GOES_ON);
    cr_assert_eq(verdict_after(&verdict, 100, 1, 1), PERIOD);
    cr_assert_eq(verdict, PACE_CUT | PACE_FORCE);
}

Test(pace, an_answer_that_is_not_taken_ends_alone_where_its_connection_carries_others)
{
    unsigned verdict;

    cr_assert_eq(later(0), PACE_GOES_ON);
    cr_assert_eq(verdict_after(&verdict, 100, 0, MB), PERIOD);
    cr_assert_eq(verdict, PACE_CUT);
}

Test(pace, what_waits_for_others_on_its_connection_has_more_time)
{
    unsigned verdict;

    now.behind = true;
    cr_assert_eq(later(0), PACE_GOES_ON);
    cr_assert_eq(verdict_after(&verdict, PACE_LATE, 0, 10 * LEAST), -1, "the connection is slow");
    now.taken += LEAST;
    cr_assert_eq(later(LOOK), PACE_GOES_ON, "its turn has come");
    cr_assert_eq(answer.late, 0, "and next time it has as much again");
}

Test(pace, but_not_for_ever)
{
    unsigned verdict;

    now.behind = true;
    cr_assert_eq(later(0), PACE_GOES_ON);
    cr_assert_eq(verdict_after(&verdict, 100, 0, 10 * LEAST), (PACE_LATE + 1) * PERIOD);
    cr_assert_eq(verdict, PACE_CUT);
}

Test(pace, and_not_where_the_connection_carries_next_to_nothing)
{
    unsigned verdict;

    now.behind = true;
    cr_assert_eq(later(0), PACE_GOES_ON);
    cr_assert_eq(verdict_after(&verdict, 100, 0, LEAST / 8), PERIOD);
    cr_assert_eq(verdict, PACE_CUT | PACE_FORCE);
}

Test(pace, who_had_all_that_there_was_is_not_waited_for)
{
    cr_assert_eq(later(0), PACE_GOES_ON);
    now.now_ms += PERIOD;
    pace_rest(&answer);
    cr_assert_eq(later(10 * PERIOD), PACE_GOES_ON, "the time begins anew");
    cr_assert_eq(later(PERIOD), PACE_CUT | PACE_FORCE);
}

Test(pace, the_rest_of_what_was_cut_waits_for_its_connection_but_not_for_ever)
{
    unsigned verdict;

    cr_assert_eq(later(0), PACE_GOES_ON);
    pace_end(&answer, &now);
    cr_assert_eq(verdict_after(&verdict, 100, 0, LEAST), PACE_ENDED * PERIOD);
    cr_assert_eq(verdict, PACE_FORCE);
}

Test(pace, the_rest_of_what_was_cut_ends_with_a_connection_that_carries_nothing)
{
    unsigned verdict;

    pace_end(&answer, &now);
    cr_assert_eq(verdict_after(&verdict, 100, 0, 1), PERIOD);
    cr_assert_eq(verdict, PACE_FORCE);
}

Test(pace, what_its_client_has_given_up_waits_as_long_as_the_connection_carries_enough)
{
    cr_assert(pace_may_wait(&answer, &now, &rule), "the time begins with the first look");
    for (int i = 0; i < 100; i++) {
        now.now_ms += PERIOD;
        now.carried += LEAST;
        cr_assert(pace_may_wait(&answer, &now, &rule));
    }
    now.now_ms += PERIOD - 1;
    now.carried += LEAST - 1;
    cr_assert(pace_may_wait(&answer, &now, &rule));
    now.now_ms += 1;
    cr_assert_not(pace_may_wait(&answer, &now, &rule));
}
