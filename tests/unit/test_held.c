/* Replies that wait for edges and for leases. */
#include "common/resource/held.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <string.h>

/* What is in force everywhere, and what was sent so far: the keys, with blanks behind them. */
typedef struct world {
    int64_t revision, epoch;
    char sent[256];
} world_t;

static bool is_in_force(void *context, int64_t revision, int64_t epoch, int64_t now_ms)
{
    const world_t *world = context;

    (void)now_ms;
    return revision <= world->revision && epoch <= world->epoch;
}

static void on_send(void *context, held_reply_t *reply)
{
    world_t *world = context;
    size_t n = strlen(world->sent);

    snprintf(world->sent + n, sizeof(world->sent) - n, "%s ", reply->key);
    zmsg_destroy(&reply->reply);
}

static held_t *some_held(world_t *world)
{
    return held_new(&(held_rules_t){is_in_force, on_send, world});
}

Test(held, what_is_in_force_already_goes_at_once)
{
    world_t world = {.revision = 5, .epoch = 5};
    held_t *held = some_held(&world);

    held_add(held, zmsg_new(), "read", 0, 0, 0);
    held_add(held, zmsg_new(), "old", 5, 5, 0);
    cr_assert_str_eq(world.sent, "read old ");
    cr_assert_eq(held_count(held), 0);
    held_destroy(&held);
}

Test(held, each_waits_for_its_own_revision_and_epoch_and_they_go_in_their_order)
{
    world_t world = {0};
    held_t *held = some_held(&world);

    held_add(held, zmsg_new(), "seven", 7, 0, 0);
    held_add(held, zmsg_new(), "six", 6, 0, 0);
    held_add(held, zmsg_new(), "lease", 6, 2, 0);
    held_add(held, zmsg_new(), "six2", 6, 0, 0);
    world.revision = 6;
    held_release(held, 1);
    cr_assert_str_eq(world.sent, "six six2 ");
    world.epoch = 2;
    held_release(held, 1);
    cr_assert_str_eq(world.sent, "six six2 lease ");
    world.revision = 8;
    held_release(held, 1);
    cr_assert_str_eq(world.sent, "six six2 lease seven ");
    cr_assert_eq(held_late(held), 0);
    held_destroy(&held);
}

Test(held, none_waits_for_longer_than_it_may_and_that_is_counted)
{
    world_t world = {0};
    held_t *held = some_held(&world);

    held_add(held, zmsg_new(), "first", 1, 0, 100);
    held_add(held, zmsg_new(), "second", 1, 0, 101);
    held_release(held, 100 + HELD_MS - 1);
    cr_assert_str_eq(world.sent, "");
    held_release(held, 100 + HELD_MS);
    cr_assert_str_eq(world.sent, "first ");
    cr_assert_eq(held_late(held), 1);
    cr_assert_eq(held_count(held), 1);
    world.revision = 1;
    held_release(held, 1000000);
    cr_assert_str_eq(world.sent, "first second ");
    cr_assert_eq(held_late(held), 1, "the second was in force, if late");
    held_destroy(&held);
}

Test(held, beyond_the_limit_a_reply_goes_with_what_is_known_and_at_the_end_all_go)
{
    world_t world = {0};
    held_t *held = some_held(&world);

    for (int i = 0; i < HELD_MAX; i++)
        held_add(held, zmsg_new(), "", 1, 0, 0);
    cr_assert_str_eq(world.sent, "");
    held_add(held, zmsg_new(), "beyond", 1, 0, 0);
    cr_assert_str_eq(world.sent, "beyond ");
    cr_assert_eq(held_count(held), HELD_MAX);
    world.revision = 1;
    held_release(held, 0);
    cr_assert_eq(held_count(held), 0);
    world.sent[0] = '\0';
    held_add(held, zmsg_new(), "last", 2, 0, 0);
    held_destroy(&held);
    cr_assert_str_eq(world.sent, "last ");
    cr_assert_null(held);
}
