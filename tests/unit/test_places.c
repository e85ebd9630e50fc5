/* Places at the config log: who has one, who gets one, and whose turn it is. */
#include "common/resource/places.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NOW = 1000000 };

static places_t *some_places(void)
{
    return calloc(1, sizeof(places_t));
}

static void free_places(places_t **self_p)
{
    places_done(*self_p);
    free(*self_p);
    *self_p = NULL;
}

/* As a hello over that connection: NULL: turned away. */
static place_t *greets(places_t *places, const char *connection, const char *peer, const char *name)
{
    size_t len = strlen(connection);
    place_t *own = places_find(places, connection, len);
    place_t *place = own && subscriber_is_live(&own->sub)
                         ? own
                         : places_take(places, own, connection, len, peer);

    if (!place)
        return NULL;
    snprintf(place->name, sizeof(place->name), "%s", name);
    subscriber_hello(&place->sub, &(greeting_t){.has = 1});
    return place;
}

static place_t *greets_number(places_t *places, int i, const char *peer)
{
    char connection[16];

    snprintf(connection, sizeof(connection), "c%d", i);
    return greets(places, connection, peer, connection);
}

Test(places, a_connection_has_one_place_and_keeps_it)
{
    places_t *places = some_places();
    place_t *first = greets(places, "a", "edge", "edge/0");

    cr_assert_eq(greets(places, "a", "edge", "edge/0"), first);
    cr_assert_eq(places->count, 1);
    cr_assert_eq(places_find(places, "a", 1), first);
    cr_assert_null(places_find(places, "b", 1));
    cr_assert_null(places_find(places, "ab", 2));
    subscriber_leave(&first->sub);
    cr_assert_eq(greets(places, "a", "edge", "edge/0"), first, "it comes back to the one it left");
    free_places(&places);
}

Test(places, one_that_was_left_is_the_next_ones)
{
    places_t *places = some_places();
    place_t *first = greets(places, "a", "edge", "edge/0");

    greets(places, "b", "edge", "edge/1");
    subscriber_leave(&first->sub);
    cr_assert_eq(greets(places, "c", "other", "other/0"), first);
    cr_assert_str_eq(first->peer, "other");
    cr_assert_eq(first->sub.acked, 0);
    cr_assert_null(places_find(places, "a", 1));
    cr_assert_eq(places->count, 2);
    free_places(&places);
}

Test(places, a_worker_that_is_lost_keeps_its_own)
{
    places_t *places = some_places();
    place_t *first = greets(places, "a", "edge", "edge/0");

    subscriber_lose(&first->sub, NOW);
    cr_assert_neq(greets(places, "b", "edge", "edge/1"), first);
    cr_assert(places_wait_for(places, "edge/0"));
    cr_assert_not(places_reach(places, "edge/0"));
    cr_assert(places_reach(places, "edge/1"));
    cr_assert_not(places_wait_for(places, "edge/2"));
    free_places(&places);
}

Test(places, one_key_takes_its_share_and_the_others_have_the_rest)
{
    places_t *places = some_places();
    char peer[16];
    int n = 0;

    while (greets_number(places, n, "edge"))
        n++;
    cr_assert_eq(n, PLACES_KEY_MAX);
    for (int other = 1; places->count < PLACES_MAX; other++) {
        snprintf(peer, sizeof(peer), "edge@%d", other);
        for (int i = 0; i < PLACES_KEY_MAX; i++, n++)
            cr_assert_not_null(greets_number(places, n, peer));
    }
    cr_assert_null(greets_number(places, n, "edge@new"), "there is none for anybody");
    subscriber_leave(&places->list[5].sub);
    cr_assert_eq(greets_number(places, n, "edge@new"), &places->list[5]);
    free_places(&places);
}

Test(places, an_identity_that_is_too_long_finds_none)
{
    char connection[PLACES_IDENTITY_MAX + 2];
    places_t *places = some_places();

    memset(connection, 'x', sizeof(connection));
    cr_assert_null(places_take(places, NULL, connection, PLACES_IDENTITY_MAX + 1, "edge"));
    cr_assert_not_null(places_take(places, NULL, connection, PLACES_IDENTITY_MAX, "edge"));
    free_places(&places);
}

Test(places, who_is_turned_away_is_remembered_while_it_goes_on_asking_and_said_now_and_then)
{
    places_t *places = some_places();

    cr_assert_not(places_somebody_is_turned_away(places));
    cr_assert_not(places_forget_turned_away(places, NOW));
    cr_assert(places_turn_away(places, NOW), "the first is said");
    cr_assert_not(places_turn_away(places, NOW + 500));
    cr_assert_not(places_forget_turned_away(places, NOW + 500 + SUBSCRIBER_DEAD_MS));
    cr_assert(places_somebody_is_turned_away(places));
    cr_assert(places_forget_turned_away(places, NOW + 501 + SUBSCRIBER_DEAD_MS));
    cr_assert_not(places_forget_turned_away(places, NOW + 502 + SUBSCRIBER_DEAD_MS), "once");
    cr_assert_not(places_somebody_is_turned_away(places));
    cr_assert_not(places_turn_away(places, NOW + 9999));
    cr_assert(places_turn_away(places, NOW + 10000), "after ten seconds again");
    free_places(&places);
}

/* ---- turns ---- */

static bool hello_is_due(const place_t *place, int64_t now_ms)
{
    return subscriber_hello_is_due(&place->sub, now_ms);
}

Test(places, each_peer_has_one_turn_at_a_time_and_nobody_is_always_last)
{
    places_t *places = some_places();
    place_t *due[PLACES_PER_TURN];

    greets(places, "a", "one", "one/0");
    greets(places, "b", "one", "one/1");
    greets(places, "c", "two", "two/0");
    cr_assert_eq(places_choose(places, hello_is_due, NOW, due), 2);
    cr_assert_str_eq(due[0]->name, "one/0");
    cr_assert_str_eq(due[1]->name, "two/0");
    places_next_turn(places);
    cr_assert_eq(places_choose(places, hello_is_due, NOW, due), 2);
    cr_assert_str_eq(due[0]->name, "one/1");
    subscriber_leave(&due[0]->sub);
    places_next_turn(places);
    places_next_turn(places);
    cr_assert_eq(places_choose(places, hello_is_due, NOW, due), 2);
    cr_assert_str_eq(due[0]->name, "one/0", "the turns go round");
    free_places(&places);
}

Test(places, a_turn_has_an_end)
{
    places_t *places = some_places();
    place_t *due[PLACES_PER_TURN];
    char peer[16];

    cr_assert_eq(places_choose(places, hello_is_due, NOW, due), 0);
    places_next_turn(places);
    for (int i = 0; i < 3 * PLACES_PER_TURN; i++) {
        snprintf(peer, sizeof(peer), "edge@%d", i);
        greets_number(places, i, peer);
    }
    cr_assert_eq(places_choose(places, hello_is_due, NOW, due), PLACES_PER_TURN);
    free_places(&places);
}
