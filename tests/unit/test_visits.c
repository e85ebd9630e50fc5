/* Visits to the sign-in host: those at providers keep out neither SAML nor another account. */
#include "services/edge/http/visits.h"

#include <criterion/criterion.h>
#include <string.h>

static visits_t visits;
static visit_place_t places[1024];

static bool enter(int at, const char *account, bool saml)
{
    return visits_enter(&visits, &places[at], account, strlen(account), saml);
}

Test(visits, at_a_provider_are_slow_and_bounded_and_keep_out_nobody_of_saml)
{
    for (int i = 0; i < VISITS_ACCOUNT_MAX; i++) {
        cr_assert(enter(i, "ac_1", false));
        cr_assert(places[i].slow);
    }
    cr_assert_not(enter(200, "ac_1", false));
    cr_assert(enter(201, "ac_2", false));
    cr_assert(enter(202, "ac_1", true));
    cr_assert_not(places[202].slow);
    visits_leave(&visits, &places[3]);
    cr_assert(enter(203, "ac_1", false), "there is room again");
    cr_assert_not(enter(200, "ac_1", false));
}

Test(visits, of_saml_are_short_until_an_account_or_all_have_many)
{
    int at = 0;

    for (int i = 0; i < VISITS_SHORT_ACCOUNT_MAX + 1; i++) {
        cr_assert(enter(at, "ac_1", true));
        cr_assert_eq(places[at++].slow, i == VISITS_SHORT_ACCOUNT_MAX);
    }
    for (int i = VISITS_SHORT_ACCOUNT_MAX; i < VISITS_SHORT_MAX + 1; i++) {
        char account[] = {'a', (char)('a' + i / 4), '\0'};
        static char names[64][3];

        memcpy(names[i], account, sizeof(account));
        cr_assert(enter(at, names[i], true));
        cr_assert_eq(places[at++].slow, i == VISITS_SHORT_MAX);
    }
    visits_leave(&visits, &places[0]);
    cr_assert(enter(0, "ac_1", true));
    cr_assert_not(places[0].slow);
}

Test(visits, of_all_accounts_are_bounded_too)
{
    static const char *const accounts[] = {"ac_1", "ac_2", "ac_3"};

    for (int i = 0; i < VISITS_MAX; i++)
        cr_assert(enter(i, accounts[i % 2], false));
    cr_assert_not(enter(500, accounts[2], false));
    cr_assert(enter(501, accounts[2], true));
}

Test(visits, that_have_no_place_leave_none)
{
    visit_place_t none = {0};

    cr_assert(enter(0, "ac_1", false));
    cr_assert(enter(1, "ac_1", false));
    visits_leave(&visits, &none);
    visits_leave(&visits, &places[1]);
    visits_leave(&visits, &places[1]);
    cr_assert_eq(visits.first, &places[0]);
    cr_assert_null(places[0].next);
    visits_leave(&visits, &places[0]);
    cr_assert_null(visits.first);
}
