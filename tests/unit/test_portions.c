/* Whose events a worker keeps, when there is little room for more. */
#include "services/edge/events/portions.h"

#include <criterion/criterion.h>

enum { ALL = 16 << 20, EVENT = 1000 };

static portions_t portions = {.segment_bytes = ALL / PORTIONS_SEGMENTS};

/* As many events of the account as it may have of `all`, at most count. */
static size_t keep(uint32_t account, size_t count, uint64_t *held, uint64_t all)
{
    size_t kept = 0;

    while (kept < count && *held + EVENT <= all && portions_may(&portions, account, *held, all)) {
        portions_add(&portions, account, EVENT);
        *held += EVENT;
        kept++;
    }
    return kept;
}

Test(portions, while_there_is_room_anybody_may_have_any_of_it)
{
    uint64_t held = 0;

    cr_assert_geq(keep(1, SIZE_MAX, &held, ALL) * EVENT, (size_t)ALL / 4 * 3 - EVENT);
    cr_assert_leq(held, (uint64_t)ALL / 4 * 3 + EVENT);
}

Test(portions, an_account_that_floods_loses_its_own)
{
    uint64_t held = 0;

    keep(1, SIZE_MAX, &held, ALL);
    cr_assert_not(portions_may(&portions, 1, held, ALL));
    cr_assert_eq(keep(2, 1000, &held, ALL), 1000, "others go on");
    cr_assert_not(portions_may(&portions, 1, held, ALL));
    cr_assert_eq(keep(3, 1000, &held, ALL), 1000);
}

Test(portions, many_accounts_that_flood_leave_something_to_the_next_one)
{
    uint64_t held = 0;
    size_t last;

    do {
        last = held;
        for (uint32_t account = 1; account <= 12; account++)
            keep(account, 10, &held, ALL);
    } while (held != last);
    cr_assert_gt(ALL - held, (uint64_t)ALL / 14);
    cr_assert_eq(keep(13, 600, &held, ALL), 600, "%llu are free", (unsigned long long)(ALL - held));
    cr_assert_not(portions_may(&portions, 1, held, ALL));
}

Test(portions, what_was_given_up_is_an_accounts_no_more)
{
    uint64_t held = 0;

    for (int round = 0; round < 100; round++) { /* through all segments, again and again */
        keep(1, SIZE_MAX, &held, ALL);
        cr_assert_not(portions_may(&portions, 1, held, ALL), "%d", round);
        held = 0; /* all were acknowledged */
        cr_assert_eq(keep(2, 10 * 1000, &held, ALL), 10 * 1000);
        held -= (uint64_t)9 * 1000 * EVENT;
        cr_assert(portions_may(&portions, 1, held, ALL));
    }
}

Test(portions, an_account_may_go_on_when_its_older_ones_are_gone)
{
    uint64_t held = 0;

    keep(1, ALL / 2 / EVENT, &held, ALL);
    keep(2, ALL / 4 / EVENT, &held, ALL);
    for (uint32_t others = 3; others < 10; others++)
        keep(others, ALL / 8 / 7 / EVENT, &held, ALL);
    cr_assert_not(portions_may(&portions, 1, held, ALL));
    held -= ALL / 2; /* the oldest are acknowledged, and others take their room */
    for (uint32_t others = 10; others < 20; others++)
        keep(others, ALL / 20 / EVENT, &held, ALL);
    cr_assert(portions_may(&portions, 1, held, ALL));
}

Test(portions, one_that_is_larger_than_all_is_counted)
{
    portions_add(&portions, 1, (size_t)3 * ALL);
    cr_assert_not(portions_may(&portions, 1, ALL, ALL));
    cr_assert(portions_may(&portions, 2, ALL, ALL));
}
