/* When sessions were active, as identity is told: nothing that did not arrive is forgotten. */
#include "services/edge/modules/told.h"

#include <criterion/criterion.h>
#include <string.h>

static told_t told;

static bool add(unsigned which, int64_t ms)
{
    unsigned char hash[SESSION_HASH_BYTES] = {0};

    memcpy(hash, &which, sizeof(which));
    return told_add(&told, hash, ms);
}

Test(told, a_session_is_told_once_with_its_last_moment)
{
    cr_assert(add(1, 10) && add(2, 20) && add(1, 30) && add(1, 25));
    cr_assert_eq(told.count, 2);
    cr_assert_eq(told.list[0].last_active_ms, 30);
}

Test(told, what_arrived_is_told_no_more_and_what_came_meanwhile_is)
{
    add(1, 10);
    told_send(&told);
    add(1, 20);
    add(2, 20);
    cr_assert_eq(told.count, 3, "what is on its way stays as it is");
    told_end(&told, true);
    cr_assert_eq(told.count, 2);
    cr_assert_eq(told.list[0].last_active_ms, 20);
    cr_assert_eq(told.sent, 0);
}

Test(told, what_was_refused_is_told_again)
{
    add(1, 10);
    add(2, 10);
    told_send(&told);
    add(3, 30);
    add(2, 20);
    told_end(&told, false);
    cr_assert_eq(told.count, 3);
    cr_assert_eq(told.list[0].last_active_ms, 10);
    cr_assert_eq(told.list[1].last_active_ms, 20);
    cr_assert_eq(told.list[2].last_active_ms, 30);
}

Test(told, there_is_room_for_so_many)
{
    for (unsigned i = 0; i < TOLD_PLACES - 10; i++)
        cr_assert(add(i, 1));
    told_send(&told);
    cr_assert_eq(told.sent, TOLD_MAX, "in one message");
    for (unsigned i = 0; i < 10; i++)
        cr_assert(add(i, 2));
    cr_assert_not(add(TOLD_PLACES, 2));
    told_end(&told, false);
    cr_assert_eq(told.count, TOLD_PLACES - 10, "each is there once");
    cr_assert_eq(told.list[9].last_active_ms, 2);
    cr_assert_eq(told.list[10].last_active_ms, 1);
    for (size_t left = told.count; left; left = told.count) {
        told_send(&told);
        told_end(&told, true);
        cr_assert_eq(told.count, left - (left < TOLD_MAX ? left : TOLD_MAX));
    }
}

Test(told, sessions_whose_hashes_begin_alike_are_told_apart)
{
    unsigned alike = 0xffff; /* the last slot, so that the others are found behind the first */

    for (unsigned i = 0; i < 100; i++)
        cr_assert(add(alike | i << 16, i));
    told_send(&told);
    for (unsigned i = 0; i < 100; i += 2)
        cr_assert(add(alike | i << 16, 1000 + i));
    told_end(&told, false);
    cr_assert_eq(told.count, 100);
    for (unsigned i = 0; i < 100; i++)
        cr_assert_eq(told.list[i].last_active_ms, i % 2 ? i : 1000 + i);
}
