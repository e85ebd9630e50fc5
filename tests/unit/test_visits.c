/* Visits to the sign-in host: those at providers keep out neither SAML nor another account. */
#include "services/edge/http/visits.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static visits_t visits = {.client_percent = 100};
static visit_place_t places[1024];

static bool enter_of(int at, const char *account, uint32_t client, bool saml)
{
    const visit_who_t who = {account, strlen(account), client, saml};

    return visits_enter(&visits, &places[at], &who);
}

/* Of a client that has no other. */
static bool enter(int at, const char *account, bool saml)
{
    return enter_of(at, account, 1 + (uint32_t)at, saml);
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
        static char names[VISITS_SHORT_MAX + 1][8];

        snprintf(names[i], sizeof(names[i]), "of_%d", i);
        cr_assert(enter(at, names[i], true));
        cr_assert_eq(places[at++].slow, i == VISITS_SHORT_MAX);
    }
    visits_leave(&visits, &places[0]);
    cr_assert(enter(100, "ac_1", true));
    cr_assert(places[100].slow, "it is left to others");
    cr_assert(enter(0, "ac_2", true));
    cr_assert_not(places[0].slow);
}

Test(visits, of_all_accounts_are_bounded_too)
{
    static const char *const accounts[] = {"ac_1", "ac_2", "ac_3"};
    static char names[VISITS_MAX][8];

    for (int i = 0; i < VISITS_MAX; i++) {
        snprintf(names[i], sizeof(names[i]), "%d", i);
        cr_assert(enter(i, names[i], false));
    }
    cr_assert_not(enter(500, accounts[2], false));
    cr_assert(enter(501, accounts[2], true));
}

/* One account after the other takes all that it can, up to 16 of them. */
static int enter_all(int at, int accounts, uint32_t client, bool saml)
{
    static char names[16][8];

    for (int i = 0; i < accounts; i++) {
        snprintf(names[i], sizeof(names[i]), "ac_%d", i);
        while (at < 900 && enter_of(at, names[i], client ? client : 1000 + (uint32_t)at, saml))
            at++;
    }
    return at;
}

Test(visits, of_one_client_of_many_accounts_or_of_many_of_one_leave_some)
{
    int at = enter_all(0, 16, 7, false), shorts;

    cr_assert(at > VISITS_MAX / 3 && at < VISITS_MAX * 2 / 5, "%d", at);
    cr_assert_not(enter_of(901, "ac_99", 7, false));
    cr_assert(enter_of(901, "ac_99", 8, false));
    cr_assert_lt(enter_all(at, 16, 0, false), VISITS_MAX);
    cr_assert(enter(910, "ac_98", false), "beside 16 accounts");
    cr_assert(enter(911, "ac_97", false), "and another one");
    visits = (visits_t){.client_percent = 100};
    memset(places, 0, sizeof(places));
    at = enter_all(0, 8, 0, true);
    shorts = 0;
    for (int i = 0; i < at; i++)
        shorts += !places[i].slow;
    cr_assert_lt(shorts, VISITS_SHORT_MAX);
    cr_assert(enter(950, "ac_97", true));
    cr_assert_not(places[950].slow, "a place among short questions is left");
}

/* All that a client can get. */
static int enter_most(int at, const char *account, uint32_t client, bool saml)
{
    while (at < 900 && enter_of(at, account, client, saml))
        at++;
    return at;
}

Test(visits, of_few_clients_of_an_account_leave_some_to_the_next_one)
{
    for (int saml = 0; saml <= 1; saml++) {
        int at = 0;

        visits = (visits_t){.client_percent = 100};
        memset(places, 0, sizeof(places));
        for (uint32_t client = 1; client <= 8; client++) {
            int before = at;

            at = enter_most(at, "ac_1", client, saml);
            cr_assert_gt(at, before, "%u", client);
            cr_assert(client > 1 || at == VISITS_ACCOUNT_MAX / 2, "one alone has half: %d", at);
        }
        for (uint32_t client = 9; client < 12; client++)
            cr_assert(enter_of(at++, "ac_1", client, saml), "%u of %d", client, at);
    }
}

Test(visits, of_few_clients_leave_some_of_the_short_ones_of_an_account)
{
    int at = enter_most(0, "ac_1", 1, true);

    at = enter_most(at, "ac_1", 2, true);
    cr_assert(enter_of(at, "ac_1", 3, true));
    cr_assert_not(places[at].slow);
}

Test(visits, of_few_clients_leave_some_to_the_next_one_of_an_account_that_may_have_less)
{
    static char names[VISITS_MAX][8];
    int at = 0;

    for (; at < VISITS_MAX * 2 / 3; at++) {
        snprintf(names[at], sizeof(names[at]), "of_%d", at);
        cr_assert(enter(at, names[at], false));
    }
    for (uint32_t client = 2001; client <= 2003; client++)
        at = enter_most(at, "ac_1", client, false);
    cr_assert(enter_of(at, "ac_1", 2004, false), "%d", at);
}

Test(visits, of_a_network_of_many_clients_leave_some_of_their_account)
{
    int count = 0;

    for (uint32_t i = 0; i < 300; i++)
        count += enter_of((int)i, "ac_1", 1 << 16 | (i + 1), false);
    cr_assert_gt(count, VISITS_ACCOUNT_MAX / 2, "%d", count);
    cr_assert_lt(count, VISITS_ACCOUNT_MAX * 3 / 4, "%d", count);
    cr_assert(enter_of(300, "ac_1", 2 << 16 | 1, false));
}

Test(visits, of_the_one_client_that_there_is_have_nearly_all)
{
    visits.client_percent = 10000;
    cr_assert_gt(enter_most(0, "ac_1", 1, false), VISITS_ACCOUNT_MAX * 8 / 10);
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

Test(visits, a_network_of_many_clients_leaves_places_to_others)
{
    static char names[300][8];
    int count = 0;

    for (uint32_t i = 0; i < 300; i++) {
        snprintf(names[i], sizeof(names[i]), "of_%u", i);
        count += enter_of((int)i, names[i], 1 << 16 | (i + 1), false);
    }
    cr_assert_leq(count, VISITS_MAX * 61 / 100, "%d", count);
    cr_assert_gt(count, VISITS_MAX / 2, "%d", count);
    cr_assert(enter_of(300, "ac_1", 2 << 16 | 1, false));
}
