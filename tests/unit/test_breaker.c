/* Circuit breakers against a plain statement of what they are, and several workers at once. */
#include "common/codec/pack.h"
#include "services/edge/modules/breaker.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const breaker_rules_t usual = {
    .tripped_s = 10, .window_s = 10, .buckets = 10, .volume = 4, .share = 0.5};

static bool nobody_is_gone(const char *route_id, uint64_t key)
{
    (void)route_id;
    (void)key;
    return false;
}

static bool first_is_gone(const char *route_id, uint64_t key)
{
    return !strcmp(route_id, "some") && key == 1ull << 63;
}

static breakers_t *breakers_new(void)
{
    breakers_t *self = calloc(1, sizeof(*self));

    cr_assert_not_null(self);
    return self;
}

/* One route with its breaker and a clock that is set. */
typedef struct {
    breakers_t *all;
    breaker_rules_t rules;
    uint64_t key, now;
    breaker_change_t change;
} route_t;

static route_t a_route(breakers_t *all, const breaker_rules_t *rules)
{
    return (route_t){all, *rules, breaker_key(all, "route", rules), 1000000, BREAKER_SAME};
}

static breaker_decision_t ask_with_body(route_t *route, bool whole, breaker_ticket_t *ticket)
{
    breaker_route_t whose = {route->key, "route", "account", 7};

    return breaker_ask(route->all, &whose, &route->rules, whole, route->now, nobody_is_gone, ticket,
                       &route->change);
}

static breaker_decision_t ask(route_t *route, breaker_ticket_t *ticket)
{
    return ask_with_body(route, true, ticket);
}

static breaker_change_t tell(route_t *route, const breaker_ticket_t *ticket, bool failed)
{
    return breaker_tell(route->all, ticket, &route->rules, route->now, failed);
}

/* n requests, each answered at once; what the last one changed. */
static breaker_change_t serve(route_t *route, unsigned n, bool failed)
{
    breaker_change_t change = BREAKER_SAME;

    while (n--) {
        breaker_ticket_t ticket;

        cr_assert_eq(ask(route, &ticket), BREAKER_ALLOW);
        change = tell(route, &ticket, failed);
    }
    return change;
}

static breaker_decision_t ask_only(route_t *route)
{
    breaker_ticket_t ticket;

    return ask(route, &ticket);
}

/* ---- when it opens ---- */

typedef struct {
    double share;
    unsigned volume, passed, failed; /* first those that pass */
    bool opens;
} opening_t;

ParameterizedTestParameters(breaker, opens)
{
    static opening_t cases[] = {
        {0.5, 4, 2, 2, true},   {0.5, 4, 3, 2, false},    {0.5, 4, 1, 2, false},
        {0.5, 4, 0, 3, false},  {0.5, 4, 0, 4, true},     {1, 4, 0, 4, true},
        {1, 4, 1, 100, false},  {0, 4, 100, 0, false},    {0, 4, 100, 1, true},
        {0.5, 0, 0, 1, true},   {0.07, 100, 93, 7, true}, {0.07, 100, 94, 6, false},
        {0.1, 20, 18, 2, true}, {0.3, 10, 7, 3, true},    {0.5, 4294967295u, 0, 200, false},
    };

    return cr_make_param_array(opening_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(opening_t *one, breaker, opens)
{
    breaker_rules_t rules = usual;
    route_t route;

    rules.share = one->share;
    rules.volume = one->volume;
    route = a_route(breakers_new(), &rules);
    cr_assert_eq(serve(&route, one->passed, false), BREAKER_SAME);
    cr_assert_eq(serve(&route, one->failed, true), one->opens ? BREAKER_OPENED : BREAKER_SAME);
    cr_assert_eq(ask_only(&route), one->opens ? BREAKER_BLOCK : BREAKER_ALLOW);
    free(route.all);
}

Test(breaker, opens_by_a_success_that_makes_the_volume)
{
    route_t route = a_route(breakers_new(), &usual);

    serve(&route, 3, true);
    cr_assert_eq(serve(&route, 1, false), BREAKER_OPENED);
    free(route.all);
}

Test(breaker, forgets_what_is_older_than_the_window)
{
    route_t route = a_route(breakers_new(), &usual);

    serve(&route, 3, true);
    route.now += 9000;
    serve(&route, 0, true);
    route.now += 1000; /* ten buckets on */
    cr_assert_eq(serve(&route, 3, true), BREAKER_SAME);
    route.now += 9999;
    cr_assert_eq(serve(&route, 1, true), BREAKER_OPENED);
    free(route.all);
}

/* The successes are forgotten first: nothing failed since, and it opens all the same. */
Test(breaker, opens_when_it_is_asked_where_the_share_rises_with_time)
{
    route_t route = a_route(breakers_new(), &usual);

    serve(&route, 10, false);
    route.now += 5000;
    cr_assert_eq(serve(&route, 4, true), BREAKER_SAME);
    route.now += 5000;
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(route.change, BREAKER_OPENED);
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(route.change, BREAKER_SAME, "it is told once");
    free(route.all);
}

/* ---- trials ---- */

static route_t an_open_route(void)
{
    route_t route = a_route(breakers_new(), &usual);

    serve(&route, 3, true);
    cr_assert_eq(serve(&route, 1, true), BREAKER_OPENED);
    return route;
}

Test(breaker, lets_one_trial_through_when_the_time_has_passed)
{
    route_t route = an_open_route();
    breaker_ticket_t trial;

    route.now += 9999;
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    route.now += 1;
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    for (int i = 0; i < 100; i++)
        cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(tell(&route, &trial, false), BREAKER_CLOSED);
    cr_assert_eq(serve(&route, 3, true), BREAKER_SAME, "what failed before it opened is forgotten");
    cr_assert_eq(serve(&route, 1, true), BREAKER_OPENED);
    free(route.all);
}

Test(breaker, stays_open_when_the_trial_fails)
{
    route_t route = an_open_route();
    breaker_ticket_t trial;

    route.now += 10000;
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    route.now += 3000;
    cr_assert_eq(tell(&route, &trial, true), BREAKER_STILL_OPEN);
    route.now += 9999;
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    route.now += 1;
    cr_assert_eq(ask_only(&route), BREAKER_ALLOW_WHILE_OPEN);
    free(route.all);
}

Test(breaker, a_trial_that_is_given_up_makes_room_for_the_next_request)
{
    route_t route = an_open_route();
    breaker_ticket_t trial, next;

    route.now += 10000;
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    breaker_forget(route.all, &trial, route.now);
    cr_assert_eq(ask(&route, &next), BREAKER_ALLOW_WHILE_OPEN);
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(tell(&route, &trial, false), BREAKER_SAME, "the first one is over");
    cr_assert_eq(tell(&route, &next, false), BREAKER_CLOSED);
    free(route.all);
}

/* Its worker was killed. */
Test(breaker, a_trial_that_never_ends_is_followed_by_another)
{
    route_t route = an_open_route();
    breaker_ticket_t trial, next;

    route.now += 10000;
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    route.now += 9999;
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    route.now += 1;
    cr_assert_eq(ask(&route, &next), BREAKER_ALLOW_WHILE_OPEN);
    cr_assert_eq(tell(&route, &trial, false), BREAKER_SAME, "who is too late decides nothing");
    breaker_forget(route.all, &trial, route.now);
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(tell(&route, &next, true), BREAKER_STILL_OPEN);
    free(route.all);
}

Test(breaker, what_began_before_it_opened_says_nothing_after_it_closed)
{
    route_t route = a_route(breakers_new(), &usual);
    breaker_ticket_t slow[8], trial;

    for (size_t i = 0; i < 8; i++)
        cr_assert_eq(ask(&route, &slow[i]), BREAKER_ALLOW);
    serve(&route, 4, true);
    cr_assert_eq(tell(&route, &slow[0], false), BREAKER_SAME);
    route.now += 10000;
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    cr_assert_eq(tell(&route, &slow[1], false), BREAKER_SAME, "only the trial closes it");
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(tell(&route, &trial, false), BREAKER_CLOSED);
    for (size_t i = 2; i < 8; i++)
        cr_assert_eq(tell(&route, &slow[i], true), BREAKER_SAME);
    cr_assert_eq(ask_only(&route), BREAKER_ALLOW);
    free(route.all);
}

/* ---- trials whose body is still to come ---- */

Test(breaker, a_trial_without_its_body_keeps_nobody_out_who_has_sent_all)
{
    route_t route = an_open_route();
    breaker_ticket_t slow, trial;

    route.now += 10000;
    cr_assert_eq(ask_with_body(&route, false, &slow), BREAKER_ALLOW_WHILE_OPEN);
    cr_assert_eq(ask_with_body(&route, false, &trial), BREAKER_BLOCK);
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    cr_assert_eq(tell(&route, &slow, true), BREAKER_SAME, "it is not the trial any more");
    route.now += 5000;
    cr_assert_eq(ask_with_body(&route, false, &slow), BREAKER_BLOCK);
    cr_assert_eq(tell(&route, &trial, false), BREAKER_CLOSED);
    free(route.all);
}

Test(breaker, trials_without_their_bodies_follow_each_other_and_the_first_answer_decides)
{
    for (int failed = 0; failed < 2; failed++) {
        route_t route = an_open_route();
        breaker_ticket_t first, second, third;

        route.now += 10000;
        cr_assert_eq(ask_with_body(&route, false, &first), BREAKER_ALLOW_WHILE_OPEN);
        route.now += BREAKER_LATE_MS - 1;
        cr_assert_eq(ask_with_body(&route, false, &second), BREAKER_BLOCK);
        route.now += 1;
        cr_assert_eq(ask_with_body(&route, false, &second), BREAKER_ALLOW_WHILE_OPEN);
        breaker_forget(route.all, &first, route.now);
        cr_assert_eq(ask_with_body(&route, false, &third), BREAKER_BLOCK);
        breaker_forget(route.all, &second, route.now);
        cr_assert_eq(ask_with_body(&route, false, &third), BREAKER_ALLOW_WHILE_OPEN);
        cr_assert_eq(tell(&route, &second, failed), failed ? BREAKER_STILL_OPEN : BREAKER_CLOSED);
        cr_assert_eq(tell(&route, &third, !failed), BREAKER_SAME);
        cr_assert_eq(ask_only(&route), failed ? BREAKER_BLOCK : BREAKER_ALLOW);
        free(route.all);
    }
}

Test(breaker, after_a_trial_that_never_ends_one_without_its_body_may_follow)
{
    route_t route = an_open_route();
    breaker_ticket_t trial, slow;

    route.now += 10000;
    cr_assert_eq(ask(&route, &trial), BREAKER_ALLOW_WHILE_OPEN);
    route.now += 10000;
    cr_assert_eq(ask_with_body(&route, false, &slow), BREAKER_ALLOW_WHILE_OPEN);
    cr_assert_eq(tell(&route, &trial, false), BREAKER_SAME);
    cr_assert_eq(tell(&route, &slow, false), BREAKER_CLOSED);
    free(route.all);
}

/* ---- places ---- */

Test(breaker, a_change_of_the_rules_begins_closed_and_the_old_ones_are_remembered)
{
    route_t route = an_open_route();
    breaker_rules_t rules = usual;
    route_t changed;

    rules.volume++;
    changed = a_route(route.all, &rules);
    cr_assert_neq(changed.key, route.key);
    cr_assert_eq(ask_only(&changed), BREAKER_ALLOW);
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    free(route.all);
}

static breaker_decision_t ask_of(const char *account, breakers_t *all, uint64_t key, uint64_t now,
                                 breaker_is_gone_t *is_gone, breaker_ticket_t *ticket)
{
    breaker_route_t whose = {key, "some", account, strlen(account)};
    breaker_change_t change;

    return breaker_ask(all, &whose, &usual, true, now, is_gone, ticket, &change);
}

static breaker_decision_t ask_by_key(breakers_t *all, uint64_t key, uint64_t now,
                                     breaker_is_gone_t *is_gone, breaker_ticket_t *ticket)
{
    return ask_of("account", all, key, now, is_gone, ticket);
}

/* Keys that all have the same places. */
static uint64_t crowded(uint64_t i)
{
    return 1ull << 63 | i * (BREAKERS_MAX / BREAKER_WAYS);
}

Test(breaker, a_place_that_is_idle_or_of_a_route_that_is_gone_is_taken_at_no_loss)
{
    breakers_t *all = breakers_new();
    breaker_ticket_t ticket, first;
    uint64_t now = 1000000, idle = now + 22000;

    cr_assert_eq(ask_by_key(all, crowded(0), now, nobody_is_gone, &first), BREAKER_ALLOW);
    for (uint64_t i = 1; i < BREAKER_WAYS; i++)
        cr_assert_eq(ask_by_key(all, crowded(i), now, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_eq(ask_by_key(all, crowded(3), now, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_not(ticket.replaced);
    cr_assert_eq(ask_by_key(all, 1ull << 63 | 1, now, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_not(ticket.replaced, "others have other places");

    cr_assert_eq(ask_by_key(all, crowded(99), now, first_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_eq(ticket.breaker, first.breaker);
    cr_assert_not(ticket.replaced);
    for (int i = 0; i < 9; i++)
        cr_assert_eq(breaker_tell(all, &first, &usual, now, true), BREAKER_SAME,
                     "whose place it was says nothing to the new one");
    cr_assert_eq(ask_by_key(all, crowded(99), now, nobody_is_gone, &ticket), BREAKER_ALLOW);

    cr_assert_eq(ask_by_key(all, crowded(98), idle, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_not(ticket.replaced);
    free(all);
}

/* The places that the account's keys first to last have, of those that were made. */
static unsigned count_kept(const breakers_t *all, uint64_t first, uint64_t last)
{
    unsigned kept = 0;

    for (size_t i = 0; i < BREAKERS_MAX; i++)
        for (uint64_t k = first; k <= last; k++)
            kept += all->keys[i] == crowded(k);
    return kept;
}

Test(breaker, where_all_places_are_taken_the_account_that_has_most_gives_one_up)
{
    breakers_t *all = breakers_new();
    breaker_ticket_t ticket;
    uint64_t now = 1000000;

    for (uint64_t i = 0; i < BREAKER_WAYS; i++)
        ask_of("greedy", all, crowded(i), now + i, nobody_is_gone, &ticket);
    now += BREAKER_WAYS;
    cr_assert_eq(ask_of("modest", all, crowded(100), now, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_not_null(ticket.breaker);
    cr_assert(ticket.replaced);
    for (uint64_t i = 200; i < 400; i++) {
        cr_assert_eq(ask_of("greedy", all, crowded(i), now, nobody_is_gone, &ticket),
                     BREAKER_ALLOW);
        cr_assert_not_null(ticket.breaker);
        cr_assert_eq(count_kept(all, 100, 100), 1, "who has more takes its own");
    }
    for (uint64_t i = 500; i < 600; i++)
        ask_of("third", all, crowded(i), now, nobody_is_gone, &ticket);
    cr_assert_eq(count_kept(all, 100, 100), 1);
    cr_assert_eq(count_kept(all, 500, 599), 32, "two that want all of it have the same");
    free(all);
}

Test(breaker, of_one_account_the_closed_breaker_that_was_asked_longest_ago_is_given_up)
{
    breakers_t *all = breakers_new();
    breaker_ticket_t ticket;
    uint64_t now = 1000000;

    for (uint64_t i = 0; i < BREAKER_WAYS; i++) {
        ask_by_key(all, crowded(i), now + i, nobody_is_gone, &ticket);
        for (int k = 0; i == 0 && k < 4; k++)
            breaker_tell(all, &ticket, &usual, now, true);
    }
    for (uint64_t i = 1; i < 4; i++) {
        ask_by_key(all, crowded(100 + i), now + 10000 + i, nobody_is_gone, &ticket);
        cr_assert_eq(count_kept(all, i, i), 0);
        cr_assert_eq(count_kept(all, 0, 0), 1, "it is open");
    }
    cr_assert_eq(ask_by_key(all, crowded(0), now + 9999, nobody_is_gone, &ticket), BREAKER_BLOCK);
    free(all);
}

Test(breaker, nobody_without_the_secret_knows_which_routes_have_the_same_places)
{
    breakers_t *one = breakers_new(), *other = breakers_new();
    breaker_rules_t rules = usual;
    unsigned same = 0;

    memset(other->secret, 1, sizeof(other->secret));
    for (rules.volume = 0; rules.volume < 1000; rules.volume++)
        same += breaker_key(one, "route", &rules) % (BREAKERS_MAX / BREAKER_WAYS)
                == breaker_key(other, "route", &rules) % (BREAKERS_MAX / BREAKER_WAYS);
    cr_assert_lt(same, 50, "%u of 1000, where 8 are chance", same);
    free(one);
    free(other);
}

Test(breaker, an_open_one_is_not_idle_before_a_window_after_its_trial)
{
    route_t route = an_open_route();
    breaker_ticket_t ticket;

    route.now += 20000;
    for (uint64_t i = 1; i < BREAKER_WAYS; i++)
        cr_assert_eq(ask_by_key(route.all, route.key ^ (i * (BREAKERS_MAX / BREAKER_WAYS)),
                                route.now, nobody_is_gone, &ticket),
                     BREAKER_ALLOW);
    cr_assert_eq(ask_by_key(route.all, crowded(1) + route.key % (BREAKERS_MAX / BREAKER_WAYS),
                            route.now, nobody_is_gone, &ticket),
                 BREAKER_ALLOW);
    cr_assert(ticket.replaced);
    cr_assert_eq(ask_only(&route), BREAKER_ALLOW_WHILE_OPEN);
    free(route.all);
}

/* At each place that it writes: what is left is found as it is, mends itself, or is taken anew. */
Test(breaker, a_worker_that_died_while_it_took_a_place_does_not_keep_it)
{
    breakers_t *all = breakers_new();
    breaker_ticket_t ticket;
    uint64_t now = 1000000, place;

    ask_by_key(all, crowded(7), now, nobody_is_gone, &ticket);
    place = (uint64_t)(ticket.breaker - all->each);
    for (uint64_t i = 0; i < BREAKER_WAYS; i++)
        all->keys[place - place % BREAKER_WAYS + i] = now; /* all of them: they are being taken */
    cr_assert_eq(ask_by_key(all, crowded(7), now + 999, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_null(ticket.breaker, "it is not counted");
    cr_assert_eq(ask_by_key(all, crowded(7), now + 1000, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_eq(ask_by_key(all, crowded(7), now + 1000, nobody_is_gone, &ticket), BREAKER_ALLOW);
    cr_assert_not_null(ticket.breaker);
    free(all);
}

Test(breaker, a_count_without_its_failure_or_the_failure_without_its_count_is_one_request_off)
{
    route_t route = a_route(breakers_new(), &usual);
    breaker_ticket_t ticket;
    uint64_t all, failed;

    ask(&route, &ticket);
    ticket.breaker->buckets[route.now / 1000 % 10].all = (route.now / 10000) << 32 | 1;
    serve(&route, 2, true);
    breaker_window(ticket.breaker, &usual, route.now, &all, &failed);
    cr_assert_eq(all, 3);
    cr_assert_eq(failed, 2);
    cr_assert_eq(serve(&route, 1, true), BREAKER_OPENED);
    free(route.all);
}

Test(breaker, a_worker_whose_clock_is_a_little_behind_counts_all_the_same)
{
    route_t route = a_route(breakers_new(), &usual);

    route.now += 20000;
    serve(&route, 1, true);
    route.now -= 1500;
    serve(&route, 2, true);
    route.now += 1500;
    cr_assert_eq(serve(&route, 1, true), BREAKER_OPENED);
    route.now -= 10;
    cr_assert_eq(ask_only(&route), BREAKER_BLOCK);
    free(route.all);
}

/* ---- the document ---- */

Test(breaker, a_document_that_is_not_what_the_tables_promise_is_bad)
{
    static const struct {
        const char *text;
        bool bad;
    } cases[] = {
        {"{'tripped_duration':10,'rolling_window':20,'num_buckets':30,'volume_threshold':40,"
         "'error_threshold_percentage':0.25}",
         false},
        {"{'tripped_duration':1,'rolling_window':1,'num_buckets':1,'volume_threshold':0,"
         "'error_threshold_percentage':0}",
         false},
        {"{'tripped_duration':86400,'rolling_window':86400,'num_buckets':128,'volume_threshold':"
         "4294967295,'error_threshold_percentage':1}",
         false},
        {"{'rolling_window':1,'num_buckets':1,'volume_threshold':0,'error_threshold_percentage':0}",
         true},
        {"{'tripped_duration':0,'rolling_window':1,'num_buckets':1,'volume_threshold':0,"
         "'error_threshold_percentage':0}",
         true},
        {"{'tripped_duration':1,'rolling_window':0,'num_buckets':1,'volume_threshold':0,"
         "'error_threshold_percentage':0}",
         true},
        {"{'tripped_duration':1,'rolling_window':1,'num_buckets':129,'volume_threshold':0,"
         "'error_threshold_percentage':0}",
         true},
        {"{'tripped_duration':1,'rolling_window':1,'num_buckets':1,'volume_threshold':-1,"
         "'error_threshold_percentage':0}",
         true},
        {"{'tripped_duration':1,'rolling_window':1,'num_buckets':1,'volume_threshold':0,"
         "'error_threshold_percentage':1.5}",
         true},
        {"{'tripped_duration':1,'rolling_window':1,'num_buckets':1,'volume_threshold':0,"
         "'error_threshold_percentage':'1'}",
         true},
        {"{'tripped_duration':1,'rolling_window':1,'num_buckets':1,'volume_threshold':0}", true},
        {"{}", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        char text[400];
        json_t *json;
        msgpack_sbuffer out;
        msgpack_unpacked document;
        breaker_rules_t rules;
        bool bad = false;

        snprintf(text, sizeof(text), "%s", cases[i].text);
        for (char *c = text; *c; c++)
            *c = *c == '\'' ? '"' : *c;
        json = json_loads(text, 0, NULL);
        msgpack_sbuffer_init(&out);
        cr_assert_eq(pack_json(&out, json), 0);
        msgpack_unpacked_init(&document);
        msgpack_unpack_next(&document, out.data, out.size, NULL);
        breaker_rules_parse(&rules, &document.data, &bad);
        cr_assert_eq(bad, cases[i].bad, "%s", text);
        if (i == 0)
            cr_assert(rules.tripped_s == 10 && rules.window_s == 20 && rules.buckets == 30
                      && rules.volume == 40 && rules.share == 0.25);
        msgpack_unpacked_destroy(&document);
        msgpack_sbuffer_destroy(&out);
        json_decref(json);
    }
}

/* ---- random histories, several writers ----
 *
 * A history is a route with random rules, and steps at random times. In each step every writer, a
 * thread, brings some requests of its own, all answered at once; the time is the same for all. The
 * reference keeps each counted answer in a list. Which of the writers' orders came about it cannot
 * know: where some order of a step opens the breaker and another does not, it takes what it finds. */

enum { WRITERS = 4, HISTORIES = 100000, AT_ONCE = 100, STEPS = 6, REQUESTS = 3 };

typedef struct {
    uint64_t tick;
    unsigned passed, failed;
} told_t;

typedef struct {
    route_t route;
    told_t told[STEPS + 1];
    unsigned count;
    bool open;
    uint64_t until;
    /* of this step */
    bool fails[WRITERS][REQUESTS];
    unsigned requests[WRITERS];
    atomic_uint allowed, trials, blocked, passed, failed, opened, closed, still;
} history_t;

static history_t *histories;
static pthread_barrier_t step_begins, step_ends;
static atomic_bool is_over;

static void bring(history_t *one, unsigned writer)
{
    for (unsigned i = 0; i < one->requests[writer]; i++) {
        route_t mine = one->route;
        breaker_ticket_t ticket;
        breaker_decision_t decision = ask(&mine, &ticket);
        breaker_change_t change = mine.change;

        one->opened += change == BREAKER_OPENED;
        one->allowed += decision == BREAKER_ALLOW;
        one->trials += decision == BREAKER_ALLOW_WHILE_OPEN;
        one->blocked += decision == BREAKER_BLOCK;
        if (decision != BREAKER_ALLOW && decision != BREAKER_ALLOW_WHILE_OPEN)
            continue;
        change = tell(&mine, &ticket, one->fails[writer][i]);
        one->opened += change == BREAKER_OPENED;
        one->closed += change == BREAKER_CLOSED;
        one->still += change == BREAKER_STILL_OPEN;
        if (decision == BREAKER_ALLOW)
            *(one->fails[writer][i] ? &one->failed : &one->passed) += 1;
    }
}

static void *write_steps(void *arg)
{
    unsigned writer = (unsigned)(uintptr_t)arg;

    for (;;) {
        pthread_barrier_wait(&step_begins);
        if (is_over)
            return NULL;
        for (unsigned i = 0; i < AT_ONCE; i++)
            bring(&histories[i], writer);
        pthread_barrier_wait(&step_ends);
    }
}

static unsigned seed = 11;

static unsigned random_below(unsigned n)
{
    seed = seed * 1103515245u + 12345u;
    return (seed >> 16) % n;
}

static uint64_t plain_tick(const history_t *one)
{
    return one->route.now * one->route.rules.buckets / (one->route.rules.window_s * 1000ull);
}

static void plain_window(const history_t *one, unsigned *passed, unsigned *failed)
{
    *passed = *failed = 0;
    for (unsigned i = 0; i < one->count; i++)
        if (plain_tick(one) - one->told[i].tick < one->route.rules.buckets) {
            *passed += one->told[i].passed;
            *failed += one->told[i].failed;
        }
}

static bool plain_opens(const history_t *one, unsigned passed, unsigned failed)
{
    return failed && passed + failed >= one->route.rules.volume
           && (double)failed / (passed + failed) >= one->route.rules.share;
}

/* Is there an order of these answers, added to the window, in which it opens at some time? */
static bool plain_may_open(const history_t *one, unsigned passed, unsigned failed,
                           unsigned more_passed, unsigned more_failed)
{
    for (unsigned i = 0; i <= more_passed; i++)
        for (unsigned k = 0; k <= more_failed; k++)
            if (plain_opens(one, passed + i, failed + k))
                return true;
    return false;
}

static void begin_history(history_t *one, breakers_t *all, unsigned number)
{
    char id[32];
    breaker_rules_t rules = {.tripped_s = 1 + random_below(3),
                             .window_s = 1 + random_below(4),
                             .buckets = 1 + random_below(random_below(2) ? 4 : 128),
                             .volume = random_below(12),
                             .share = random_below(11) / 10.0};

    memset(one, 0, sizeof(*one));
    snprintf(id, sizeof(id), "r%u", number);
    one->route = (route_t){all, rules, breaker_key(all, id, &rules), 5000000 + random_below(100000),
                           BREAKER_SAME};
    ask_only(&one->route); /* its place; nobody races for that here */
}

static void begin_step(history_t *one)
{
    one->route.now += random_below(3) ? random_below(1500) : random_below(5000);
    for (unsigned w = 0; w < WRITERS; w++) {
        one->requests[w] = random_below(REQUESTS + 1);
        for (unsigned i = 0; i < REQUESTS; i++)
            one->fails[w][i] = random_below(2);
    }
    one->allowed = one->trials = one->blocked = one->passed = one->failed = 0;
    one->opened = one->closed = one->still = 0;
}

/* Now that all have written: is it what it must be, or one of what it may be? */
static void compare_step(history_t *one)
{
    unsigned passed, failed, requests = one->allowed + one->trials + one->blocked, asked = 0;
    uint64_t now = one->route.now, all_found, failed_found;
    breaker_ticket_t ticket;
    bool was_open = one->open, is_due = was_open && now >= one->until;

    for (unsigned w = 0; w < WRITERS; w++)
        asked += one->requests[w];
    cr_assert_eq(requests, asked, "no request was told that there is no place");
    cr_assert_eq(one->trials, is_due && asked, "one trial when it is due, else none");
    if (was_open && !is_due) {
        cr_assert_eq(one->blocked, asked);
        return;
    }
    if (one->still) {
        cr_assert(is_due && one->still == 1 && !one->closed && !one->allowed);
        one->until = now + one->route.rules.tripped_s * 1000ull;
        return;
    }
    cr_assert_eq(one->closed, is_due && asked);
    if (is_due && asked) { /* closed by its trial: what was told is forgotten */
        one->open = false;
        one->count = 0;
    }
    if (one->open)
        return;
    plain_window(one, &passed, &failed);
    cr_assert_leq(one->opened, 1);
    if (one->opened)
        cr_assert(plain_may_open(one, passed, failed, one->passed, one->failed));
    else
        cr_assert_eq(one->blocked, is_due ? one->blocked : 0);
    if (!one->opened && asked)
        cr_assert_not(plain_opens(one, passed + one->passed, failed + one->failed));
    one->told[one->count++] = (told_t){plain_tick(one), one->passed, one->failed};
    if (one->opened) {
        one->open = true;
        one->until = now + one->route.rules.tripped_s * 1000ull;
        return;
    }
    /* no answer was lost, and none counted twice */
    plain_window(one, &passed, &failed);
    if (!asked)
        return;
    cr_assert_eq(ask(&one->route, &ticket), BREAKER_ALLOW);
    breaker_window(ticket.breaker, &one->route.rules, now, &all_found, &failed_found);
    cr_assert_eq(all_found, passed + failed);
    cr_assert_eq(failed_found, failed);
}

Test(breaker, says_what_a_plain_reference_says_of_100000_random_histories_of_several_writers,
     .timeout = 300)
{
    pthread_t writers[WRITERS];
    breakers_t *all = breakers_new();
    unsigned opened = 0, closed = 0;

    histories = calloc(AT_ONCE, sizeof(*histories));
    pthread_barrier_init(&step_begins, NULL, WRITERS + 1);
    pthread_barrier_init(&step_ends, NULL, WRITERS + 1);
    for (uintptr_t w = 0; w < WRITERS; w++)
        cr_assert_eq(pthread_create(&writers[w], NULL, write_steps, (void *)w), 0);
    for (unsigned n = 0; n < HISTORIES; n += AT_ONCE) {
        memset(all, 0, sizeof(all->keys));
        for (unsigned i = 0; i < AT_ONCE; i++)
            begin_history(&histories[i], all, n + i);
        for (unsigned step = 0; step < STEPS; step++) {
            for (unsigned i = 0; i < AT_ONCE; i++)
                begin_step(&histories[i]);
            pthread_barrier_wait(&step_begins);
            pthread_barrier_wait(&step_ends);
            for (unsigned i = 0; i < AT_ONCE; i++) {
                compare_step(&histories[i]);
                opened += histories[i].opened;
                closed += histories[i].closed;
            }
        }
    }
    is_over = true;
    pthread_barrier_wait(&step_begins);
    for (unsigned w = 0; w < WRITERS; w++)
        pthread_join(writers[w], NULL);
    cr_assert(opened > 10000 && closed > 1000, "%u opened, %u closed", opened, closed);
    free(histories);
    free(all);
}
