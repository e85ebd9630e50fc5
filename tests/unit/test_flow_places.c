/* Places of the sign-ins that a browser has under way: those that begin at once do not take each
 * other's, those that begin one after the other take none that is needed. */
#include "services/edge/http/flow_places.h"

#include <criterion/criterion.h>

enum { NOW = 1000000, OLD = NOW - 100, AT_ONCE = FLOW_PLACES_AT_ONCE };

static flow_place_t taken(int64_t since_s)
{
    return (flow_place_t){.taken = true, .since_s = since_s};
}

/* Bit i of old: place i has a flow of long ago; the lower the place the older. */
static void fill(flow_place_t places[FLOW_PLACES], unsigned old)
{
    for (int i = 0; i < FLOW_PLACES; i++)
        places[i] = old >> i & 1 ? taken(OLD + i) : (flow_place_t){0};
}

/* A few begin at once. Those in the bits of late were sent when all answers before were there. */
static void begin_at_once(unsigned old, uint64_t turn, unsigned late)
{
    flow_place_t before[FLOW_PLACES], seen[FLOW_PLACES];
    unsigned got = 0;

    fill(before, old);
    fill(seen, old);
    for (unsigned i = 0; i < AT_ONCE; i++) {
        int place = flow_place(late >> i & 1 ? seen : before, false, false, NOW + (int64_t)(i / 2),
                               turn + i);

        cr_assert(place >= 0 && place < FLOW_PLACES - 2, "%d", place);
        cr_assert_not(got >> place & 1, "old %x, turn %u, late %x: %d twice", old, (unsigned)turn,
                      late, place);
        got |= 1u << place;
        seen[place] = taken(NOW + (int64_t)(i / 2));
    }
}

Test(flow_places, five_that_begin_at_once_have_each_its_own_whatever_was_there)
{
    for (unsigned old = 0; old < 256; old++)
        for (uint64_t turn = 0; turn < 60; turn++)
            begin_at_once(old, turn, 0);
}

Test(flow_places, also_where_some_were_sent_later_than_others)
{
    for (unsigned old = 0; old < 256; old++)
        for (uint64_t turn = 0; turn < 60; turn++)
            for (unsigned late = 1; late < 1u << AT_ONCE; late++)
                if (__builtin_popcount(old) <= 8 - AT_ONCE) /* else the oldest of all make room */
                    begin_at_once(old, turn, late);
}

Test(flow_places, one_after_the_other_take_none_that_is_taken_while_there_are_free_ones)
{
    for (uint64_t turn = 0; turn < 60; turn++)
        for (unsigned step = 1; step < 9; step++) {
            flow_place_t places[FLOW_PLACES] = {0};

            for (unsigned i = 0; i < 8; i++) {
                int place = flow_place(places, false, false, NOW, turn + (uint64_t)i * step);

                cr_assert_not(places[place].taken, "the %uth", i);
                places[place] = taken(NOW);
            }
        }
}

Test(flow_places, of_old_ones_the_three_newest_never_make_room)
{
    for (uint64_t turn = 0; turn < 60; turn++) {
        flow_place_t places[FLOW_PLACES];

        fill(places, 0xff);
        cr_assert_lt(flow_place(places, false, false, NOW, turn), AT_ONCE);
        places[0] = taken(OLD + 9);
        cr_assert_neq(flow_place(places, false, false, NOW, turn), 0);
    }
}

Test(flow_places, long_ones_have_two)
{
    for (uint64_t turn = 0; turn < 60; turn++) {
        flow_place_t places[FLOW_PLACES] = {0};
        int one = flow_place(places, true, false, NOW, turn),
            two = flow_place(places, true, false, NOW, turn + 1), three;

        cr_assert(one >= 8 && two >= 8 && one != two);
        places[one] = taken(NOW);
        three = flow_place(places, true, false, NOW, turn);
        cr_assert_eq(three, two, "the one that is free");
        places[two] = taken(NOW);
        cr_assert_geq(flow_place(places, true, false, NOW, turn), 8);
    }
}

Test(flow_places, what_is_framed_has_few_and_takes_nobodys)
{
    for (uint64_t turn = 0; turn < 60; turn++)
        for (unsigned old = 0; old < 1u << FLOW_PLACES; old++) {
            flow_place_t places[FLOW_PLACES];
            int narrow, wide;

            fill(places, old);
            narrow = flow_place(places, false, true, NOW, turn);
            wide = flow_place(places, true, true, NOW, turn);
            cr_assert((old & 3) == 3 ? narrow == -1 : narrow >= 0 && narrow < 2);
            cr_assert(narrow < 0 || !places[narrow].taken);
            cr_assert_eq(wide, old >> 8 & 1 ? -1 : 8);
        }
}

Test(flow_places, a_clock_that_is_behind_another_edges_and_a_time_that_is_none_do_no_harm)
{
    flow_place_t places[FLOW_PLACES];

    fill(places, 0);
    for (int i = 0; i < FLOW_PLACES; i++)
        places[i] = taken(i % 2 ? 0 : UINT32_MAX);
    for (uint64_t turn = UINT64_MAX - 30; turn != 30; turn++)
        cr_assert(flow_place(places, false, false, NOW, turn) >= 0
                  && flow_place(places, false, false, NOW, turn) < 8);
}

Test(flow_places, nonces_of_frames_take_no_page_s_place_and_those_one_after_the_other_differ)
{
    for (uint64_t turn = UINT64_MAX - 60; turn != 60; turn++) {
        int page = nonce_place(false, turn), framed = nonce_place(true, turn);

        cr_assert(page >= 0 && page < NONCE_PAGES, "%d", page);
        cr_assert(framed >= NONCE_PAGES && framed < NONCE_PLACES, "%d", framed);
        if (turn + 1 == 0)
            continue; /* the count begins anew, and two may be the same */
        cr_assert_neq(page, nonce_place(false, turn + 1));
        cr_assert_neq(framed, nonce_place(true, turn + 1));
    }
}
