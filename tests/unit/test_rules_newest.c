/* Which rules of a module are the newest that anybody has shown. */
#include "services/identity/rules_newest.h"

#include <criterion/criterion.h>
#include <stdio.h>

Test(rules_newest, are_those_of_the_highest_revision_of_each_module)
{
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 0);
    rules_newest_note("r1 oidc m1", 5);
    rules_newest_note("r1 oidc m1", 3);
    rules_newest_note("r1 oidc m2", 9);
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 5, "an edge that is behind makes none older");
    cr_assert_eq(rules_newest_known("r1 oidc m2"), 9);
    cr_assert_eq(rules_newest_known("r1 oidc m"), 0);
    rules_newest_note("r1 oidc m1", 6);
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 6);
}

Test(rules_newest, sessions_are_looked_through_now_and_then_only)
{
    cr_assert(rules_newest_take_look("r1 oidc m1", 1));
    cr_assert_not(rules_newest_take_look("r1 oidc m1", RULES_NEWEST_LOOK_MS));
    cr_assert(rules_newest_take_look("r1 oidc m2", 1), "another module's");
    rules_newest_note("r1 oidc m1", 5);
    cr_assert(rules_newest_take_look("r1 oidc m1", RULES_NEWEST_LOOK_MS + 1));
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 5);
}

Test(rules_newest, that_were_lost_are_newer_than_none)
{
    rules_newest_note("r1 oidc m1", 9);
    cr_assert_not(rules_newest_is_lost("r1 oidc m1", 9));
    rules_newest_lose("r1 oidc m1", 5, 9);
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 5);
    rules_newest_note("r1 oidc m1", 7);
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 5, "an edge has them still");
    cr_assert(rules_newest_is_lost("r1 oidc m1", 6));
    cr_assert(rules_newest_is_lost("r1 oidc m1", 9));
    cr_assert_not(rules_newest_is_lost("r1 oidc m1", 5));
    cr_assert_not(rules_newest_is_lost("r1 oidc m1", 10));
    cr_assert_not(rules_newest_is_lost("r1 oidc m2", 9), "another module's");
    rules_newest_lose("r1 oidc m1", 5, 8);
    cr_assert(rules_newest_is_lost("r1 oidc m1", 9), "those that were lost are so still");
    rules_newest_note("r1 oidc m1", 10);
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 10, "a change since");
    rules_newest_lose("r1 oidc m1", 2, 10);
    cr_assert_eq(rules_newest_known("r1 oidc m1"), 2, "and once more");
    cr_assert(rules_newest_is_lost("r1 oidc m1", 3));
}

Test(rules_newest, postern_routes_is_asked_now_and_then_only)
{
    cr_assert(rules_newest_take_question("r1 oidc m1", 1));
    cr_assert_not(rules_newest_take_question("r1 oidc m1", RULES_NEWEST_ASK_MS));
    cr_assert(rules_newest_take_look("r1 oidc m1", 1), "which is no look");
    cr_assert(rules_newest_take_question("r1 oidc m2", 1), "another module's");
    cr_assert(rules_newest_take_question("r1 oidc m1", RULES_NEWEST_ASK_MS + 1));
}

/* Many more modules than are remembered: what is forgotten is not taken for another one's. */
Test(rules_newest, of_many_modules_none_has_anothers)
{
    enum { MODULES = 30000 };
    char place[SEALED_PLACE_SIZE];
    int known = 0;

    for (int i = 1; i <= MODULES; i++) {
        snprintf(place, sizeof(place), "r%d oidc m", i);
        rules_newest_note(place, i);
    }
    for (int i = 1; i <= MODULES; i++) {
        int64_t revision;

        snprintf(place, sizeof(place), "r%d oidc m", i);
        revision = rules_newest_known(place);
        known += revision == i;
        cr_assert(revision == i || !revision, "%s: %d", place, (int)revision);
    }
    cr_assert_gt(known, 1000);
}
