#include "services/edge/control/follow.h"

#include <criterion/criterion.h>

/* In force: L 5; a snapshot of M 9 arrives. */
static const follow_t idle = {"L", 5, false, "", 0};
static const follow_t building = {"L", 5, true, "M", 9};

Test(follow, a_change_follows_what_is_in_force)
{
    cr_assert_eq(follow_message(&idle, "delta", "L", 5, 7), FOLLOW_CHANGE);
    cr_assert_eq(follow_message(&building, "delta", "L", 5, 7), FOLLOW_CHANGE);
    cr_assert_eq(follow_message(&idle, "delta", "L", 4, 7), FOLLOW_ASK);
    cr_assert_eq(follow_message(&idle, "delta", "L", 6, 7), FOLLOW_ASK);
    cr_assert_eq(follow_message(&idle, "delta", "M", 5, 7), FOLLOW_ASK);
    cr_assert_eq(follow_message(&idle, "delta", "L", 5, 4), FOLLOW_ASK);
}

/* A writer whose database is replaced while a snapshot goes out names another log, or another revision, from then on. */
Test(follow, a_snapshot_is_of_one_log_and_revision_to_its_end)
{
    cr_assert_eq(follow_message(&building, "more", "M", 0, 9), FOLLOW_ADD);
    cr_assert_eq(follow_message(&building, "end", "M", 0, 9), FOLLOW_END);
    cr_assert_eq(follow_message(&building, "more", "L", 0, 9), FOLLOW_ASK);
    cr_assert_eq(follow_message(&building, "end", "L", 0, 9), FOLLOW_ASK);
    cr_assert_eq(follow_message(&building, "end", "M", 0, 8), FOLLOW_ASK);
    cr_assert_eq(follow_message(&idle, "more", "M", 0, 9), FOLLOW_NOTHING);
    cr_assert_eq(follow_message(&idle, "end", "M", 0, 9), FOLLOW_NOTHING);
    cr_assert_eq(follow_message(&building, "snapshot", "L", 0, 3), FOLLOW_BEGIN);
}

Test(follow, a_beat_that_names_anything_else_asks)
{
    cr_assert_eq(follow_message(&idle, "beat", "L", 0, 5), FOLLOW_CURRENT);
    cr_assert_eq(follow_message(&idle, "beat", "L", 0, 6), FOLLOW_ASK);
    cr_assert_eq(follow_message(&idle, "beat", "M", 0, 5), FOLLOW_ASK);
    cr_assert_eq(follow_message(&building, "beat", "L", 0, 5), FOLLOW_ASK);
    cr_assert_eq(follow_message(&idle, "gossip", "L", 0, 5), FOLLOW_NOTHING);
}

Test(follow, kept_changes_may_begin_before_what_is_there_and_leave_no_gap)
{
    cr_assert_eq(follow_record(&idle, FOLLOW_DELTA, "L", 3, 7), FOLLOW_CHANGE);
    cr_assert_eq(follow_record(&idle, FOLLOW_DELTA, "L", 3, 5), FOLLOW_NOTHING);
    cr_assert_eq(follow_record(&idle, FOLLOW_DELTA, "L", 6, 7), FOLLOW_ASK);
    cr_assert_eq(follow_record(&idle, FOLLOW_DELTA, "M", 3, 7), FOLLOW_ASK);
    cr_assert_eq(follow_record(&building, FOLLOW_SNAPSHOT_END, "M", 0, 9), FOLLOW_END);
    cr_assert_eq(follow_record(&building, FOLLOW_SNAPSHOT_END, "L", 0, 9), FOLLOW_ASK);
    cr_assert_eq(follow_record(&building, FOLLOW_MORE, "M", 0, 8), FOLLOW_ASK);
    cr_assert_eq(follow_record(&idle, FOLLOW_MORE, "M", 0, 8), FOLLOW_NOTHING);
    cr_assert_eq(follow_record(&idle, 'Z', "L", 5, 6), FOLLOW_ASK);
}
