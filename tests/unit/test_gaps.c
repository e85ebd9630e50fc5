/* What a subscriber misses, by the numbers of what it got. */
#include "services/cli/gaps.h"

#include <criterion/criterion.h>
#include <stdlib.h>

enum { NOW = 1000, LATER = NOW + GAP_GRACE_MS };

static gaps_t *gaps(void)
{
    gaps_t *self = calloc(1, sizeof(*self));

    cr_assert_not_null(self);
    return self;
}

static void due(gaps_t *self, int64_t first, int64_t last)
{
    gap_t *gap = gaps_due(self, LATER);

    cr_assert_not_null(gap);
    cr_assert_eq(gap->first, first);
    cr_assert_eq(gap->last, last);
    gaps_told(gap, false);
}

Test(gaps, consecutive_numbers_leave_none_and_the_first_one_may_be_any)
{
    gaps_t *self = gaps();

    for (int64_t i = 500; i < 600; i++)
        cr_assert(gaps_seen(self, "a", i, NOW));
    cr_assert_null(gaps_due(self, LATER));
    free(self);
}

Test(gaps, what_is_left_out_is_told_once_and_not_at_once)
{
    gaps_t *self = gaps();

    gaps_seen(self, "a", 1, NOW);
    gaps_seen(self, "b", 1, NOW);
    gaps_seen(self, "a", 5, NOW);
    gaps_seen(self, "b", 2, NOW);
    cr_assert_null(gaps_due(self, LATER - 1));
    due(self, 2, 4);
    cr_assert_null(gaps_due(self, LATER));
    free(self);
}

Test(gaps, what_comes_late_closes_them)
{
    gaps_t *self = gaps();

    gaps_seen(self, "a", 1, NOW);
    gaps_seen(self, "a", 10, NOW);
    cr_assert(gaps_seen(self, "a", 2, NOW));
    cr_assert(gaps_seen(self, "a", 5, NOW));
    cr_assert(gaps_seen(self, "a", 9, NOW));
    due(self, 3, 4);
    due(self, 6, 8);
    cr_assert_null(gaps_due(self, LATER));
    free(self);
}

Test(gaps, what_was_fetched_does_not_come_twice)
{
    gaps_t *self = gaps();

    gaps_seen(self, "a", 1, NOW);
    gaps_seen(self, "a", 4, NOW);
    gaps_told(gaps_due(self, LATER), true);
    cr_assert_not(gaps_seen(self, "a", 2, LATER));
    cr_assert(gaps_seen(self, "a", 2, LATER + GAP_MEMORY_MS + 1), "but not for good");
    gaps_seen(self, "a", 7, LATER);
    gaps_told(gaps_due(self, LATER + GAP_GRACE_MS), false);
    cr_assert(gaps_seen(self, "a", 5, LATER), "the log did not have it");
    free(self);
}

Test(gaps, a_head_shows_the_last_ones_and_types_that_never_came)
{
    gaps_t *self = gaps();

    gaps_head(self, "a", 100, true, NOW);
    gaps_head(self, "a", 100, false, NOW);
    cr_assert_null(gaps_due(self, LATER), "what was before is not ours");
    gaps_head(self, "a", 103, false, NOW);
    gaps_head(self, "b", 2, false, NOW);
    due(self, 101, 103);
    due(self, 1, 2);
    free(self);
}

Test(gaps, what_does_not_fit_is_counted)
{
    enum { EACH = GAPS_MAX + 10 };
    gaps_t *self = gaps();

    for (int64_t i = 0; i <= EACH; i++)
        gaps_seen(self, "a", 1 + 2 * i, NOW);
    cr_assert_eq(self->count, GAPS_MAX);
    cr_assert_eq(self->overflowed, 10);
    gaps_told(gaps_due(self, LATER), false);
    gaps_seen(self, "a", 1 + 2 * (EACH + 1), NOW);
    cr_assert_eq(self->overflowed, 10, "one that was told makes room");
    free(self);
}

Test(gaps, the_end_is_missed_only_when_nothing_comes_any_more)
{
    gaps_t *self = gaps();

    gaps_seen(self, "a", 1, NOW);
    gaps_head(self, "a", 100, false, NOW);
    for (int64_t i = 2; i <= 90; i++) {
        cr_assert(gaps_seen(self, "a", i, NOW + 100 * i));
        cr_assert_null(gaps_due(self, NOW + 100 * i + GAP_GRACE_MS - 1));
    }
    cr_assert_not_null(gaps_due(self, NOW + 9000 + GAP_GRACE_MS));
    free(self);
}

Test(gaps, numbers_that_no_event_service_gives_are_passed_over)
{
    gaps_t *self = gaps();

    cr_assert(gaps_seen(self, "a", INT64_MAX, NOW));
    cr_assert(gaps_seen(self, "a", -1, NOW));
    gaps_head(self, "a", INT64_MAX, true, NOW);
    cr_assert_eq(self->type_count, 0);
    gaps_seen(self, "a", 1, NOW);
    gaps_head(self, "a", GAP_NUMBER_MAX, false, NOW);
    due(self, 2, GAP_NUMBER_MAX);
    free(self);
}

/* The subscription is in force a little after the subscriber has asked for the numbers: what comes
 * between is missed, also where it is the first of its type. */
Test(gaps, the_first_event_of_a_type_is_missed_like_any_other)
{
    gaps_t *self = gaps();

    gaps_head(self, "a", 7, true, NOW);
    self->begun = true;
    cr_assert(gaps_seen(self, "b", 3, NOW));
    cr_assert(gaps_seen(self, "a", 8, NOW));
    due(self, 1, 2);
    cr_assert(gaps_seen(self, "c", 1, NOW));
    cr_assert_null(gaps_due(self, LATER));
    free(self);
}
