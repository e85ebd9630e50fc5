/* When a helper process is taken for dead, and when it is only told to be absent. Time is set. */
#include "services/edge/control/liveness.h"

#include <criterion/criterion.h>

static liveness_t self;
static int64_t now_ms = 1000;

static liveness_verdict_t beat(char state, uint64_t ran)
{
    now_ms += LIVENESS_BEAT_MS;
    return liveness_beat(&self, now_ms, &(liveness_sight_t){state, ran});
}

/* How many beats it is given; 0: it is not taken for dead in a hundred. step: what it runs between
 * two of them. */
static int patience(char state, uint64_t step)
{
    for (int i = 1; i <= 100; i++)
        if (beat(state, (uint64_t)i * step) == LIVENESS_DEAD)
            return i;
    return 0;
}

Test(liveness, one_that_is_heard_lives)
{
    for (int i = 0; i < 100; i++) {
        cr_assert_eq(beat('S', 5), LIVENESS_THERE);
        liveness_heard(&self);
        cr_assert_not(liveness_needs_sight(&self));
    }
}

Test(liveness, one_that_says_nothing_is_told_to_be_absent_from_the_second_beat_on)
{
    cr_assert_eq(beat('\0', 0), LIVENESS_THERE);
    cr_assert(liveness_needs_sight(&self));
    cr_assert_eq(beat('R', 5), LIVENESS_ABSENT);
    liveness_heard(&self);
    cr_assert_eq(beat('\0', 0), LIVENESS_THERE);
}

Test(liveness, one_that_is_stopped_or_over_is_dead_at_the_third_beat)
{
    cr_assert_eq(patience('T', 0), LIVENESS_STOPPED_BEATS + 1);
    self = (liveness_t){0};
    cr_assert_eq(patience('Z', 0), LIVENESS_STOPPED_BEATS + 1);
}

Test(liveness, one_that_waits_for_a_processor_or_a_disk_is_given_time)
{
    for (const char *state = "RD"; *state; state++) {
        self = (liveness_t){0};
        for (int i = 0; i < LIVENESS_HUNG_BEATS; i++)
            cr_assert_neq(beat(*state, 5), LIVENESS_DEAD, "%c at beat %d", *state, i);
        cr_assert_eq(beat(*state, 5), LIVENESS_DEAD, "but not for ever");
    }
}

Test(liveness, one_that_sleeps_for_seconds_though_it_is_asked_is_dead)
{
    int beats = patience('S', 0);

    cr_assert_geq(beats * LIVENESS_BEAT_MS, 3000);
    cr_assert_leq(beats * LIVENESS_BEAT_MS, 4000);
}

Test(liveness, one_that_runs_meanwhile_is_given_time)
{
    cr_assert_eq(patience('S', 1), LIVENESS_HUNG_BEATS + 1);
}

Test(liveness, one_of_which_nothing_is_known_is_given_time)
{
    cr_assert_eq(patience('\0', 0), LIVENESS_HUNG_BEATS + 1);
}

Test(liveness, beats_that_come_late_say_nothing)
{
    for (int i = 0; i < 200; i++) {
        now_ms += LIVENESS_LATE_MS;
        cr_assert_neq(beat('S', 5), LIVENESS_DEAD, "%d", i);
    }
    cr_assert_neq(patience('S', 0), 0, "those in time do");
}

Test(liveness, what_the_kernel_says_is_read_whatever_the_name_is)
{
    static const char *const none[] = {"",
                                       "1",
                                       "1 (nginx",
                                       "1 (nginx)",
                                       "1 (nginx) S",
                                       "1 (nginx) S 1 2 3 4 5 6 7 8 9 10 11",
                                       "1 (nginx) S a b c d e f g h i j k l m"};
    liveness_sight_t sight = liveness_sight_read(
        "27 (a) R 1 (b) S 24303 24303 24303 0 -1 4194624 9876 0 12 0 308 111 0 0 20 0 5 0 99");

    cr_assert_eq(sight.state, 'S');
    cr_assert_eq(sight.ran, 308 + 111);
    for (unsigned i = 0; i < sizeof(none) / sizeof(none[0]); i++)
        cr_assert_eq(liveness_sight_read(none[i]).state, '\0', "%s", none[i]);
}
