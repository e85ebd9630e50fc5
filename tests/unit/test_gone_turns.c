/* Places whose sessions end take turns. */
#include "services/identity/gone_turns.h"

#include <criterion/criterion.h>
#include <errno.h>

enum { BOUND = 10000 };

typedef struct world {
    int64_t has[GONE_PLACES_MAX];
    int turns[GONE_PLACES_MAX];
    size_t fails; /* the place with this number; GONE_PLACES_MAX: none */
} world_t;

static int end_some(void *context, size_t place, int most, int *ret_count)
{
    world_t *self = context;

    cr_assert(most >= 1 && most <= GONE_BATCH_MAX);
    self->turns[place]++;
    if (place == self->fails)
        return -EIO;
    *ret_count = self->has[place] < most ? (int)self->has[place] : most;
    self->has[place] -= *ret_count;
    return 0;
}

Test(gone_turns, a_place_with_a_million_sessions_keeps_no_other_waiting)
{
    world_t world = {.has = {1000000, 3, 1000000, 250}, .fails = GONE_PLACES_MAX};
    int64_t ended = 0;

    cr_assert_eq(gone_take_turns(4, BOUND, end_some, &world, &ended), 0);
    cr_assert_eq(world.has[1] + world.has[3], 0);
    cr_assert_geq(ended, BOUND);
    cr_assert_lt(ended, BOUND + GONE_BATCH_MAX);
    cr_assert_leq(world.has[2] - world.has[0], GONE_BATCH_MAX, "and both such places have theirs");
}

Test(gone_turns, each_has_one_however_many_there_are_and_whatever_ended_before)
{
    static world_t world = {.fails = GONE_PLACES_MAX};
    int64_t ended = BOUND - 1;

    for (size_t i = 0; i < GONE_PLACES_MAX; i++)
        world.has[i] = 1000;
    cr_assert_eq(gone_take_turns(GONE_PLACES_MAX, BOUND, end_some, &world, &ended), 0);
    for (size_t i = 0; i < GONE_PLACES_MAX; i++)
        cr_assert_eq(world.turns[i], 1, "place %zu", i);
    cr_assert_leq(ended, 2 * BOUND);
}

Test(gone_turns, those_that_have_no_more_are_left_alone)
{
    world_t world = {.has = {0, GONE_BATCH_MAX, GONE_BATCH_MAX + 1}, .fails = GONE_PLACES_MAX};
    int64_t ended = 0;

    cr_assert_eq(gone_take_turns(3, BOUND, end_some, &world, &ended), 0);
    cr_assert_eq(world.turns[0], 1);
    cr_assert_eq(world.turns[1], 2, "whether that was all is not known before");
    cr_assert_eq(world.turns[2], 2);
    cr_assert_eq(ended, 2 * GONE_BATCH_MAX + 1);
    cr_assert_eq(gone_take_turns(0, BOUND, end_some, &world, &ended), 0);
}

Test(gone_turns, a_fault_ends_all)
{
    world_t world = {.has = {5, 5, 5}, .fails = 1};
    int64_t ended = 0;

    cr_assert_eq(gone_take_turns(3, BOUND, end_some, &world, &ended), -EIO);
    cr_assert_eq(ended, 5);
    cr_assert_eq(world.turns[2], 0);
}
