/* What waits, by turns of its owners, each with its share of the room. */
#include "common/bus/shares.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const shares_bounds_t bounds = {.own = 3, .own_bytes = 1000, .all = 5, .all_bytes = 2000};

static int put(shares_t *shares, const char *owner, char *what, size_t bytes)
{
    return shares_put(shares, owner, &bounds, bytes, what);
}

static void takes(shares_t *shares, const char *want)
{
    const char *got = shares_take(shares);

    cr_assert(got && !strcmp(got, want), "%s, not %s", got ? got : "nothing", want);
}

Test(shares, are_taken_by_turns_the_oldest_of_each_first)
{
    shares_t *shares = shares_new(NULL);

    cr_assert_eq(put(shares, "a", "a1", 1), 0);
    cr_assert_eq(put(shares, "a", "a2", 1), 0);
    cr_assert_eq(put(shares, "a", "a3", 1), 0);
    cr_assert_eq(put(shares, "b", "b1", 1), 0);
    takes(shares, "a1");
    cr_assert_eq(put(shares, "c", "c1", 1), 0);
    takes(shares, "b1");
    takes(shares, "a2");
    takes(shares, "c1");
    cr_assert_eq(put(shares, "b", "b2", 1), 0);
    takes(shares, "a3");
    takes(shares, "b2");
    cr_assert_null(shares_take(shares));
    cr_assert_eq(put(shares, "a", "a4", 1), 0);
    takes(shares, "a4");
    cr_assert_eq(shares_waiting(shares), 0);
    cr_assert_eq(shares_bytes(shares), 0);
    shares_destroy(&shares);
    cr_assert_null(shares);
}

Test(shares, refuse_whoever_has_its_share_and_nobody_else)
{
    shares_t *shares = shares_new(NULL);

    for (int i = 0; i < 3; i++)
        cr_assert_eq(put(shares, "a", "a", 1), 0);
    cr_assert_eq(put(shares, "a", "a", 1), -EDQUOT);
    cr_assert_eq(put(shares, "b", "b", 1), 0);
    takes(shares, "a");
    cr_assert_eq(put(shares, "a", "a", 1), 0, "one is gone");
    cr_assert_eq(put(shares, "c", "c", 1), 0);
    cr_assert_eq(put(shares, "d", "d", 1), -EAGAIN, "there are as many as may be");
    cr_assert_eq(put(shares, "a", "a", 1), -EDQUOT);
    shares_destroy(&shares);
}

Test(shares, are_of_bytes_too_but_one_item_may_have_any_size)
{
    shares_t *shares = shares_new(NULL);

    cr_assert_eq(put(shares, "a", "large", 1500), 0);
    cr_assert_eq(put(shares, "a", "small", 1), -EDQUOT);
    cr_assert_eq(put(shares, "b", "b1", 999), 0);
    cr_assert_eq(shares_bytes(shares), 2499);
    cr_assert_eq(put(shares, "b", "b2", 1), -EAGAIN);
    takes(shares, "large");
    cr_assert_eq(put(shares, "b", "b2", 1), 0);
    cr_assert_eq(put(shares, "b", "b3", 1), -EDQUOT);
    cr_assert_eq(shares_bytes(shares), 1000);
    shares_destroy(&shares);
}

static int destroyed;

static void destroy(void **item)
{
    destroyed++;
    free(*item);
    *item = NULL;
}

Test(shares, destroy_what_nobody_took)
{
    shares_t *shares = shares_new(destroy);

    for (int i = 0; i < 5; i++)
        cr_assert_eq(put(shares, i % 2 ? "a" : "b", malloc(10), 10), 0);
    free(shares_take(shares));
    shares_destroy(&shares);
    cr_assert_eq(destroyed, 4);
    shares_destroy(&shares);
}

/* Owners come and go: as many turns as there are of them, each within reach of the others'. */
Test(shares, let_nobody_wait_for_more_than_one_of_each)
{
    enum { OWNERS = 300, EACH = 40 };
    static const shares_bounds_t all = {
        .own = EACH, .own_bytes = 1 << 20, .all = OWNERS * EACH, .all_bytes = 1 << 20};
    static char names[OWNERS][8];
    shares_t *shares = shares_new(NULL);

    for (int i = 0; i < OWNERS; i++)
        snprintf(names[i], sizeof(names[i]), "%d", i);
    for (int i = 0; i < OWNERS; i++)
        for (int n = 0; n < EACH; n++)
            cr_assert_eq(shares_put(shares, names[i], &all, 1, names[i]), 0);
    for (int n = 0; n < EACH; n++)
        for (int i = 0; i < OWNERS; i++)
            takes(shares, names[i]);
    cr_assert_null(shares_take(shares));
    shares_destroy(&shares);
}

Test(shares, of_names_with_the_same_first_word_have_one_turn_together_and_take_turns_within_it)
{
    shares_t *shares = shares_new(NULL);

    shares_turn_by_first_word(shares);
    cr_assert_eq(put(shares, "a one", "a1", 1), 0);
    cr_assert_eq(put(shares, "a one", "a1 again", 1), 0);
    cr_assert_eq(put(shares, "a two", "a2", 1), 0);
    cr_assert_eq(put(shares, "ab", "ab", 1), 0);
    takes(shares, "a1");
    cr_assert_eq(put(shares, "b one", "b1", 1), 0);
    takes(shares, "ab");
    takes(shares, "a2");
    takes(shares, "b1");
    takes(shares, "a1 again");
    cr_assert_null(shares_take(shares));
    cr_assert_eq(put(shares, "b one", "b1", 1), 0);
    cr_assert_eq(put(shares, "a", "a", 1), 0);
    takes(shares, "b1");
    takes(shares, "a");
    shares_destroy(&shares);
}

Test(shares, of_a_first_word_that_is_at_its_bound_are_passed_over)
{
    shares_t *shares = shares_new(NULL);

    shares_turn_by_first_word(shares);
    shares_bound_held(shares, 1);
    cr_assert_eq(shares_put_held(shares, "a one", "a", &bounds, 1, "a1"), 0);
    cr_assert_eq(shares_put_held(shares, "a two", "a", &bounds, 1, "a2"), 0);
    cr_assert_eq(shares_put_held(shares, "b one", "b", &bounds, 1, "b"), 0);
    takes(shares, "a1");
    takes(shares, "b");
    cr_assert_null(shares_take(shares));
    shares_release(shares, "a");
    takes(shares, "a2");
    shares_destroy(&shares);
}

static int put_held(shares_t *shares, const char *owner, const char *holder, char *what)
{
    return shares_put_held(shares, owner, holder, &bounds, 1, what);
}

Test(shares, of_one_holder_are_worked_on_up_to_a_bound)
{
    shares_t *shares = shares_new(NULL);

    shares_bound_held(shares, 2);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(put_held(shares, "a", "one", "a"), 0);
    cr_assert_eq(put_held(shares, "b", "one", "b"), 0);
    takes(shares, "a");
    takes(shares, "b");
    cr_assert_null(shares_next_holder(shares));
    cr_assert_null(shares_take(shares), "it has two already, whoever owns them");
    cr_assert_eq(shares_waiting(shares), 2);
    cr_assert_eq(put_held(shares, "c", "other", "c"), 0);
    cr_assert_str_eq(shares_next_holder(shares), "other");
    takes(shares, "c");
    cr_assert_eq(put(shares, "d", "d", 1), 0);
    takes(shares, "d");
    shares_release(shares, "other");
    cr_assert_null(shares_take(shares));
    shares_release(shares, "one");
    takes(shares, "a");
    cr_assert_null(shares_take(shares));
    shares_destroy(&shares); /* one waits still */
}

static const shares_bounds_t none = {
    .own = SIZE_MAX, .own_bytes = SIZE_MAX, .all = SIZE_MAX, .all_bytes = SIZE_MAX};

static int put_grouped(shares_t *shares, const char *owner, const char *group, char *what)
{
    return shares_put_grouped(shares, owner, group, "", &none, 0, what);
}

Test(shares, owners_of_a_group_at_its_bound_have_no_turn_until_one_of_its_items_is_done)
{
    shares_t *shares = shares_new(NULL);

    shares_bound_groups(shares, 1, 0);
    cr_assert_eq(put_grouped(shares, "a", "one", "a1"), 0);
    cr_assert_eq(put_grouped(shares, "a", "one", "a2"), 0);
    cr_assert_eq(put_grouped(shares, "b", "one", "b"), 0);
    cr_assert_eq(put_grouped(shares, "c", "other", "c"), 0);
    cr_assert_eq(put_grouped(shares, "d", "", "d1"), 0);
    cr_assert_eq(put_grouped(shares, "d", "", "d2"), 0);
    takes(shares, "a1");
    takes(shares, "c");
    takes(shares, "d1");
    takes(shares, "d2");
    cr_assert_null(shares_take(shares));
    shares_release_grouped(shares, "c", "other");
    shares_release_grouped(shares, "d", "");
    cr_assert_null(shares_take(shares), "that was another's");
    shares_release_grouped(shares, "a", "one");
    takes(shares, "b");
    shares_release_grouped(shares, "b", "one");
    takes(shares, "a2");
    shares_destroy(&shares);
}

/* How many of that owner's items may be worked on now; they are. */
static int take_all(shares_t *shares, const char *owner)
{
    const char *what;
    int count = 0;

    while ((what = shares_take(shares))) {
        cr_assert_str_eq(what, owner);
        count++;
    }
    return count;
}

Test(shares, one_owner_of_a_group_has_a_portion_of_it_and_leaves_some_for_the_others)
{
    shares_t *shares = shares_new(NULL);

    shares_bound_groups(shares, 12, 400);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(put_grouped(shares, "a", "one", "a"), 0);
    cr_assert_eq(take_all(shares, "a"), 7);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(put_grouped(shares, "b", "one", "b"), 0);
    cr_assert_eq(take_all(shares, "b"), 2);
    for (int i = 0; i < 20; i++)
        cr_assert_eq(put_grouped(shares, "c", "one", "c"), 0);
    cr_assert_eq(take_all(shares, "c"), 1, "who has none may have one");
    shares_release_grouped(shares, "a", "one");
    cr_assert_null(shares_take(shares), "the others have too many for that");
    for (int i = 0; i < 6; i++)
        shares_release_grouped(shares, "a", "one");
    cr_assert_not_null(shares_take(shares));
    shares_destroy(&shares);
}
