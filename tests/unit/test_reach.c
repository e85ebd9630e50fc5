#include "services/edge/http/reach.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KEY(n) ((uint64_t)(n) | 1ull << 63)
/* Of account 1, as most are here. */
#define ONE(key, id)         OF(1, key, id)
#define OF(account, key, id) (&(const reach_member_t){key, account, id})

static reach_t *make_reach(void)
{
    return calloc(1, sizeof(reach_t));
}

Test(reach, who_is_not_known_is_up)
{
    reach_t *self = make_reach();

    cr_assert_eq(reach_ask(self, KEY(1), 5), REACH_UP);
    cr_assert(!reach_made(self, KEY(1)));
    reach_left(self, KEY(1), 5);
    cr_assert_eq(reach_list(self, 5, NULL, 0), 0);
    free(self);
}

Test(reach, a_back_off_grows_to_its_bound_and_each_end_of_it_has_one_trial)
{
    reach_t *self = make_reach();
    uint64_t now = 100000, waits[] = {1000, 2000, 4000, 8000, 16000, 30000, 30000, 30000};

    cr_assert(reach_failed(self, ONE(KEY(1), "one"), now, false));
    for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
        cr_assert_eq(reach_ask(self, KEY(1), now + waits[i] - 1), REACH_DOWN, "wait %zu", i);
        now += waits[i];
        cr_assert_eq(reach_ask(self, KEY(1), now), REACH_TRIAL, "wait %zu", i);
        cr_assert_eq(reach_ask(self, KEY(1), now), REACH_DOWN, "others, meanwhile");
        cr_assert(!reach_failed(self, ONE(KEY(1), "one"), now, true));
    }
    free(self);
}

Test(reach, a_look_takes_no_trial)
{
    reach_t *self = make_reach();

    cr_assert_eq(reach_look(self, KEY(1), 1000), REACH_UP);
    reach_failed(self, ONE(KEY(1), "one"), 1000, false);
    cr_assert_eq(reach_look(self, KEY(1), 1999), REACH_DOWN);
    for (int i = 0; i < 2; i++)
        cr_assert_eq(reach_look(self, KEY(1), 2000), REACH_TRIAL);
    cr_assert_eq(reach_ask(self, KEY(1), 2000), REACH_TRIAL);
    cr_assert_eq(reach_look(self, KEY(1), 2000), REACH_DOWN, "it is another's");
    free(self);
}

Test(reach, a_connection_forgets_it_and_the_next_back_off_is_short_again)
{
    reach_t *self = make_reach();

    reach_failed(self, ONE(KEY(1), "one"), 1000, false);
    reach_ask(self, KEY(1), 2000);
    reach_failed(self, ONE(KEY(1), "one"), 2000, true);
    cr_assert_eq(reach_ask(self, KEY(1), 4000), REACH_TRIAL);
    cr_assert(reach_made(self, KEY(1)));
    cr_assert(!reach_made(self, KEY(1)));
    cr_assert_eq(reach_ask(self, KEY(1), 4000), REACH_UP);
    cr_assert(reach_failed(self, ONE(KEY(1), "one"), 5000, false));
    cr_assert_eq(reach_ask(self, KEY(1), 5999), REACH_DOWN);
    cr_assert_eq(reach_ask(self, KEY(1), 6000), REACH_TRIAL);
    free(self);
}

Test(reach, many_that_were_dialled_at_the_same_time_are_one_failure)
{
    reach_t *self = make_reach();

    cr_assert(reach_failed(self, ONE(KEY(1), "one"), 1000, false));
    for (int i = 0; i < 100; i++)
        cr_assert(!reach_failed(self, ONE(KEY(1), "one"), 1900, false));
    cr_assert_eq(reach_ask(self, KEY(1), 2000), REACH_TRIAL);
    free(self);
}

Test(reach, a_trial_that_ends_without_a_result_is_followed_by_the_next_request)
{
    reach_t *self = make_reach();

    reach_failed(self, ONE(KEY(1), "one"), 1000, false);
    cr_assert_eq(reach_ask(self, KEY(1), 2000), REACH_TRIAL);
    reach_left(self, KEY(1), 2100);
    cr_assert_eq(reach_ask(self, KEY(1), 2100), REACH_TRIAL);
    /* nobody ends it: its worker died */
    cr_assert_eq(reach_ask(self, KEY(1), 2100 + REACH_TRIAL_MS - 1), REACH_DOWN);
    cr_assert_eq(reach_ask(self, KEY(1), 2100 + REACH_TRIAL_MS), REACH_TRIAL);
    free(self);
}

/* Many workers at the same moment: [thread][round], what each was told. */
enum { THREADS = 4, ROUNDS = 2000 };

static reach_t *shared;
static reach_answer_t told[THREADS][ROUNDS];
static pthread_barrier_t barrier;

static void *ask_each_round(void *number)
{
    for (size_t i = 0; i < ROUNDS; i++) {
        pthread_barrier_wait(&barrier);
        told[(size_t)number][i] = reach_ask(shared, KEY(1), 1000 * (i + 2));
        pthread_barrier_wait(&barrier);
        if (told[(size_t)number][i] == REACH_TRIAL)
            reach_left(shared, KEY(1), 1000 * (i + 2));
    }
    return number;
}

Test(reach, of_all_workers_one_has_the_trial)
{
    pthread_t threads[THREADS];

    shared = make_reach();
    pthread_barrier_init(&barrier, NULL, THREADS);
    reach_failed(shared, ONE(KEY(1), "one"), 1000, false);
    for (size_t i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, ask_each_round, (void *)i);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < ROUNDS; i++) {
        int trials = 0;

        for (size_t k = 0; k < THREADS; k++) {
            trials += told[k][i] == REACH_TRIAL;
            cr_assert_neq(told[k][i], REACH_UP);
        }
        cr_assert_eq(trials, 1, "round %zu: %d trials", i, trials);
    }
    free(shared);
}

enum { SETS = REACH_MAX / REACH_WAYS };

Test(reach, memory_is_bounded_and_an_account_that_has_all_places_gives_up_one_of_its_own)
{
    reach_t *self = make_reach();

    for (uint64_t i = 0; i < REACH_WAYS; i++)
        cr_assert(reach_failed(self, ONE(KEY(SETS * (i + 1)), "x"), 1000 + i, false));
    cr_assert(!reach_failed(self, ONE(KEY(SETS * 99), "late"), 1100, false), "not to be logged");
    cr_assert_eq(reach_ask(self, KEY(SETS * 99), 1100), REACH_DOWN);
    cr_assert_eq(reach_ask(self, KEY(SETS), 1100), REACH_UP, "it is passed over no longer");
    for (uint64_t i = 1; i < REACH_WAYS; i++)
        cr_assert_eq(reach_ask(self, KEY(SETS * (i + 1)), 1100), REACH_DOWN, "as it was");
    /* those that nobody tried for long make room */
    cr_assert(reach_failed(self, ONE(KEY(SETS * 98), "later"), 3000 + REACH_IDLE_MS, false));
    cr_assert_eq(reach_ask(self, KEY(SETS * 98), 3000 + REACH_IDLE_MS), REACH_DOWN);
    free(self);
}

Test(reach, an_account_with_many_members_that_are_down_takes_no_place_from_others)
{
    reach_t *self = make_reach();

    for (uint64_t i = 0; i < 3; i++)
        cr_assert(reach_failed(self, OF(2 + i, KEY(SETS * (i + 1)), "theirs"), 1000, false));
    for (uint64_t i = 0; i < 1000; i++)
        reach_failed(self, OF(9, KEY(SETS * (i + 10)), "many"), 1000, false);
    for (uint64_t i = 0; i < 3; i++)
        cr_assert_eq(reach_ask(self, KEY(SETS * (i + 1)), 1001), REACH_DOWN, "member %d", (int)i);
    cr_assert(reach_failed(self, OF(5, KEY(SETS * 5), "new"), 1000, false), "nor keeps it out");
    cr_assert_eq(reach_ask(self, KEY(SETS * 5), 1001), REACH_DOWN);
    free(self);
}

Test(reach, nor_do_as_many_accounts_with_many_as_a_set_has_places)
{
    reach_t *self = make_reach();

    for (uint64_t i = 0; i < SETS * REACH_WAYS; i++)
        reach_failed(self, OF(100 + i / SETS, KEY(i + SETS), "many"), 1000, false);
    cr_assert(reach_failed(self, OF(5, KEY(SETS * 99 + 3), "one"), 1000, false));
    for (uint64_t i = 0; i < 50; i++)
        for (uint64_t account = 0; account < REACH_WAYS; account++) {
            uint64_t key = KEY(SETS * (100 + i * REACH_WAYS + account) + 3);

            reach_failed(self, OF(100 + account, key, "more"), 1001 + i, false);
            cr_assert_eq(reach_ask(self, KEY(SETS * 99 + 3), 1001), REACH_DOWN, "%d", (int)i);
        }
    free(self);
}

Test(reach, those_that_are_down_are_listed_and_counted)
{
    reach_t *self = make_reach();
    char ids[3][REACH_ID_MAX], text[200];

    memset(text, 'y', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    for (uint64_t i = 0; i < 5; i++)
        reach_failed(self, ONE(KEY(i + 1), i == 2 ? text : "bkdst_1"), 1000, false);
    cr_assert_eq(reach_list(self, 1000, ids, 3), 5);
    cr_assert_str_eq(ids[0], "bkdst_1");
    cr_assert_eq(strlen(ids[2]), REACH_ID_MAX - 1);
    reach_made(self, KEY(1));
    cr_assert_eq(reach_list(self, 1000, ids, 3), 4);
    cr_assert_eq(reach_list(self, 3000 + REACH_IDLE_MS, ids, 3), 0,
                 "nobody asks for them any more");
    free(self);
}
