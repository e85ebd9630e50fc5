/* Requests that wait for a worker: what one peer asks for keeps nobody else waiting. */
#include "common/bus/backlog.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <errno.h>

enum { WORKERS = 4 };

static int put_sized(backlog_t *backlog, const char *owner, backlog_lane_t lane, size_t bytes)
{
    zmsg_t *msg = zmsg_new();
    zframe_t *body = zframe_new(NULL, bytes);
    int r;

    zmsg_addstr(msg, owner);
    zmsg_append(msg, &body);
    r = backlog_put(backlog, owner, lane, &msg);
    cr_assert_eq(msg == NULL, r == 0, "what is refused is the caller's still");
    zmsg_destroy(&msg);
    return r;
}

static int put(backlog_t *backlog, const char *owner, backlog_lane_t lane)
{
    return put_sized(backlog, owner, lane, 1);
}

static void put_again(backlog_t *backlog, const char *owner, backlog_lane_t lane)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addstr(msg, owner);
    backlog_put_again(backlog, owner, "", lane, &msg);
    cr_assert_null(msg);
}

/* The owner of the next one. */
static void takes(backlog_t *backlog, const char *want)
{
    zmsg_t *msg = backlog_take(backlog);

    cr_assert(zframe_streq(zmsg_first(msg), want), "not %s", want);
    zmsg_destroy(&msg);
}

Test(backlog, a_gateway_alone_has_all_its_room)
{
    backlog_t *backlog = backlog_new(WORKERS);

    for (int i = 0; i < BACKLOG_OWN; i++)
        cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), 0);
    cr_assert_eq(backlog_waiting(backlog), BACKLOG_OWN);
    cr_assert(backlog_is_full(backlog));
    cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), -EDQUOT);
    for (int i = 0; i < BACKLOG_OWN; i++) {
        takes(backlog, "gateway");
        backlog_done(backlog, BACKLOG_QUICK, "");
    }
    cr_assert_not(backlog_is_full(backlog));
    backlog_destroy(&backlog);
}

Test(backlog, a_guest_that_has_its_share_is_refused_and_nobody_else)
{
    backlog_t *backlog = backlog_new(WORKERS);
    int n = 0;

    while (!put(backlog, "subscriber@a", BACKLOG_GUEST))
        n++;
    cr_assert_eq(n, BACKLOG_GUESTS_OWN, "%d", n);
    cr_assert_eq(put(backlog, "subscriber@a", BACKLOG_GUEST), -EDQUOT);
    put_again(backlog, "subscriber@a", BACKLOG_GUEST); /* it was let in before, and comes back */
    cr_assert_eq(put(backlog, "subscriber@a", BACKLOG_GUEST), -EDQUOT);
    cr_assert_eq(put(backlog, "subscriber@b", BACKLOG_GUEST), 0);
    cr_assert_eq(put(backlog, "gateway", BACKLOG_SLOW), 0);
    cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), 0);
    takes(backlog, "gateway"); /* the quick one, and the slow one */
    takes(backlog, "gateway");
    takes(backlog, "subscriber@a");
    backlog_done(backlog, BACKLOG_SLOW, "");
    takes(backlog, "subscriber@b");
    backlog_destroy(&backlog);
}

Test(backlog, guests_without_number_take_no_room_of_the_gateway)
{
    backlog_t *backlog = backlog_new(1);
    char name[32];
    int r = 0;

    for (int i = 0; !r; i++) {
        snprintf(name, sizeof(name), "subscriber@%d", i / 100);
        r = put(backlog, name, BACKLOG_GUEST);
    }
    cr_assert_eq(r, -EAGAIN);
    cr_assert_eq(backlog_waiting(backlog), BACKLOG_GUESTS_ALL);
    for (int i = 0; i < BACKLOG_OWN; i++) {
        cr_assert_eq(put(backlog, "gateway", BACKLOG_SLOW), 0);
        cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), 0);
    }
    backlog_destroy(&backlog);
}

Test(backlog, counts_bytes_and_what_frames_take)
{
    enum { LARGE = 1 << 20 };
    backlog_t *backlog = backlog_new(1);
    int n = 0;

    while (!put_sized(backlog, "cli", BACKLOG_GUEST, LARGE))
        n++;
    cr_assert_eq(n, BACKLOG_GUESTS_OWN_BYTES / LARGE, "%d", n);
    cr_assert_eq(put(backlog, "subscriber", BACKLOG_GUEST), 0);
    for (n = 0; !put_sized(backlog, "gateway", BACKLOG_QUICK, LARGE);)
        n++;
    cr_assert_leq(n, BACKLOG_OWN_BYTES / LARGE);
    cr_assert(backlog_is_full(backlog));
    backlog_destroy(&backlog);
}

Test(backlog, accounts_that_an_edge_asks_for_take_turns_and_have_the_room_of_one_guest)
{
    backlog_t *backlog = backlog_new(WORKERS);
    char name[32];
    int n = 0;

    while (!put(backlog, "edge@a ac_1", BACKLOG_GUEST))
        n++;
    cr_assert_eq(n, BACKLOG_GUESTS_OWN / 2, "half of its edge's: %d", n);
    cr_assert_eq(put(backlog, "edge@a ac_2", BACKLOG_GUEST), 0);
    takes(backlog, "edge@a ac_1");
    takes(backlog, "edge@a ac_2");
    backlog_done(backlog, BACKLOG_GUEST, "");
    takes(backlog, "edge@a ac_1");
    for (n = 0; n < 2 * BACKLOG_GUESTS_OWN; n++) { /* of whomever it speaks, its room is one's */
        snprintf(name, sizeof(name), "edge@a ac_%d", n + 10);
        if (put(backlog, name, BACKLOG_GUEST))
            break;
    }
    cr_assert_eq(put(backlog, "edge@a ac_3", BACKLOG_GUEST), -EDQUOT);
    cr_assert_eq(backlog_waiting(backlog), BACKLOG_GUESTS_OWN);
    cr_assert_eq(put(backlog, "edge@b ac_1", BACKLOG_GUEST), 0);
    backlog_destroy(&backlog);
}

/* Lanes beside the quick one, and how many of their requests may run. */
static const struct {
    backlog_lane_t lane;
    size_t most;
} beside[] = {{BACKLOG_GUEST, 2}, {BACKLOG_SLOW, 1}, {BACKLOG_SLOW_GUEST, 1}};

Test(backlog, slow_ones_and_guests_without_end_get_no_more_than_half_of_the_workers)
{
    for (size_t i = 0; i < LEN(beside); i++) {
        backlog_t *backlog = backlog_new(WORKERS);

        for (int n = 0; n < 200; n++)
            cr_assert_eq(put(backlog, "beside", beside[i].lane), 0);
        for (size_t n = 0; n < beside[i].most; n++)
            takes(backlog, "beside");
        for (int n = 0; n < 20; n++) { /* the first one runs on */
            cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), 0);
            takes(backlog, "gateway");
            if (n % 20)
                backlog_done(backlog, BACKLOG_QUICK, "");
        }
        backlog_done(backlog, beside[i].lane, "");
        cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), 0);
        takes(backlog, "beside"); /* it is longer since one of these had a turn */
        takes(backlog, "gateway");
        cr_assert_eq(backlog_waiting(backlog), 199 - beside[i].most);
        cr_assert_not(backlog_is_full(backlog));
        backlog_destroy(&backlog);
    }
}

Test(backlog, slow_ones_and_guests_have_half_of_the_workers_together_and_take_turns)
{
    backlog_t *backlog = backlog_new(WORKERS);

    for (int n = 0; n < 3; n++) {
        cr_assert_eq(put(backlog, "slow", BACKLOG_SLOW), 0);
        cr_assert_eq(put(backlog, "guest", BACKLOG_GUEST), 0);
    }
    takes(backlog, "slow");
    takes(backlog, "guest");
    for (int n = 0; n < 2; n++) {
        backlog_done(backlog, BACKLOG_SLOW, "");
        takes(backlog, "slow");
        backlog_done(backlog, BACKLOG_GUEST, "");
        takes(backlog, "guest");
    }
    cr_assert_eq(backlog_waiting(backlog), 0);
    backlog_destroy(&backlog);
}

Test(backlog, slow_ones_of_whoever_leave_a_worker_to_guests)
{
    static const struct {
        int workers, slow, guests;
    } cases[] = {{3, 1, 1}, {4, 1, 1}, {5, 1, 1}, {8, 3, 1}, {16, 7, 1}};

    for (size_t i = 0; i < LEN(cases); i++) {
        backlog_t *backlog = backlog_new(cases[i].workers);

        for (int n = 0; n < 40; n++)
            cr_assert_eq(put(backlog, "slow", BACKLOG_SLOW), 0);
        for (int n = 0; n < cases[i].slow; n++)
            takes(backlog, "slow");
        for (int n = 0; n < 20; n++) { /* each while the slow ones run */
            cr_assert_eq(put(backlog, "guest", BACKLOG_GUEST), 0);
            takes(backlog, "guest");
            backlog_done(backlog, BACKLOG_GUEST, "");
        }
        cr_assert_eq(put(backlog, "gateway", BACKLOG_QUICK), 0);
        takes(backlog, "gateway");
        backlog_destroy(&backlog);
    }
}

/* A guest comes again and again, each time with nothing but guests done. */
static void serves_guests(backlog_t *backlog)
{
    for (int n = 0; n < 20; n++) {
        cr_assert_eq(put(backlog, "edge@z ac_9", BACKLOG_GUEST), 0);
        takes(backlog, "edge@z ac_9");
        backlog_done(backlog, BACKLOG_GUEST, "");
    }
}

Test(backlog, quick_ones_of_whoever_leave_a_worker_to_guests, .timeout = 20)
{
    static const int workers[] = {3, 4, 5, 8, 16};

    for (size_t i = 0; i < LEN(workers); i++) {
        backlog_t *backlog = backlog_new(workers[i]);
        char name[40];

        for (int n = 0; n < 40; n++) {
            snprintf(name, sizeof(name), "gateway ac_%d", n);
            cr_assert_eq(put(backlog, name, BACKLOG_QUICK), 0);
        }
        for (int n = 0; n < workers[i] - 1; n++) {
            snprintf(name, sizeof(name), "gateway ac_%d", n);
            takes(backlog, name);
        }
        serves_guests(backlog);
        backlog_done(backlog, BACKLOG_QUICK, "");
        snprintf(name, sizeof(name), "gateway ac_%d", workers[i] - 1);
        takes(backlog, name);
        backlog_destroy(&backlog);
    }
}

Test(backlog, quick_and_slow_ones_together_leave_a_worker_to_guests, .timeout = 20)
{
    backlog_t *backlog = backlog_new(WORKERS);

    for (int n = 0; n < 40; n++) {
        cr_assert_eq(put(backlog, "api", BACKLOG_QUICK), 0);
        cr_assert_eq(put(backlog, "api", BACKLOG_SLOW), 0);
        cr_assert_eq(put(backlog, "api", BACKLOG_SLOW_GUEST), 0);
    }
    for (int n = 0; n < WORKERS - 1; n++)
        takes(backlog, "api");
    serves_guests(backlog);
    backlog_destroy(&backlog);
}

Test(backlog, slow_ones_of_guests_leave_a_worker_to_other_guests_and_take_turns, .timeout = 20)
{
    backlog_t *backlog = backlog_new(WORKERS);

    for (int n = 0; n < 3; n++)
        cr_assert_eq(put(backlog, "edge@a ac_1", BACKLOG_SLOW_GUEST), 0);
    cr_assert_eq(put(backlog, "edge@a ac_2", BACKLOG_SLOW_GUEST), 0);
    cr_assert_eq(put(backlog, "gateway", BACKLOG_SLOW), 0);
    takes(backlog, "gateway");
    serves_guests(backlog);
    backlog_done(backlog, BACKLOG_SLOW, "");
    takes(backlog, "edge@a ac_1");
    serves_guests(backlog);
    cr_assert_eq(put(backlog, "gateway", BACKLOG_SLOW), 0);
    backlog_done(backlog, BACKLOG_SLOW_GUEST, "");
    takes(backlog, "gateway"); /* the lanes of slow ones take turns, too */
    backlog_done(backlog, BACKLOG_SLOW, "");
    takes(backlog, "edge@a ac_2");
    backlog_done(backlog, BACKLOG_SLOW_GUEST, "");
    takes(backlog, "edge@a ac_1");
    backlog_destroy(&backlog);
}

Test(backlog, slow_ones_of_a_guest_have_its_room)
{
    backlog_t *backlog = backlog_new(WORKERS);
    int n = 0;

    while (!put(backlog, "edge@a ac_1", BACKLOG_SLOW_GUEST))
        n++;
    cr_assert_eq(n, BACKLOG_GUESTS_OWN / 2, "%d", n);
    while (!put(backlog, "edge@a ac_2", BACKLOG_SLOW_GUEST))
        n++;
    cr_assert_eq(n, BACKLOG_GUESTS_OWN, "%d", n);
    put_again(backlog, "edge@a ac_1", BACKLOG_SLOW_GUEST);
    cr_assert_eq(put(backlog, "edge@b ac_1", BACKLOG_SLOW_GUEST), 0);
    cr_assert_eq(put(backlog, "edge@a ac_1", BACKLOG_GUEST), 0);
    backlog_destroy(&backlog);
}

Test(backlog, one_worker_is_half_of_the_workers_where_there_is_one)
{
    backlog_t *backlog = backlog_new(1);

    cr_assert_eq(put(backlog, "slow", BACKLOG_SLOW), 0);
    cr_assert_eq(put(backlog, "slow", BACKLOG_SLOW), 0);
    takes(backlog, "slow");
    backlog_done(backlog, BACKLOG_SLOW, "");
    takes(backlog, "slow");
    backlog_destroy(&backlog);
}

Test(backlog, gives_no_worker_anything_once_it_was_stopped)
{
    backlog_t *backlog = backlog_new(WORKERS);

    cr_assert_eq(put(backlog, "quick", BACKLOG_QUICK), 0);
    backlog_stop(backlog);
    cr_assert_null(backlog_take(backlog));
    backlog_destroy(&backlog);
}

Test(backlog, one_account_that_asks_without_end_is_one_turn_of_another)
{
    backlog_t *backlog = backlog_new(WORKERS);

    for (int i = 0; i < 1000; i++)
        cr_assert_eq(put(backlog, "gateway ac_1", BACKLOG_QUICK), 0);
    takes(backlog, "gateway ac_1");
    cr_assert_eq(put(backlog, "gateway ac_2", BACKLOG_QUICK), 0);
    takes(backlog, "gateway ac_1");
    takes(backlog, "gateway ac_2");
    backlog_destroy(&backlog);
}

static int put_held(backlog_t *backlog, const char *account, backlog_lane_t lane)
{
    zmsg_t *msg = zmsg_new();
    int r;

    zmsg_addstr(msg, account);
    r = backlog_put_held(backlog, account, account, lane, &msg);
    zmsg_destroy(&msg);
    return r;
}

Test(backlog, one_account_never_has_all_workers)
{
    static const struct {
        int workers, most;
    } cases[] = {{2, 1}, {3, 1}, {4, 2}, {8, 6}};

    for (size_t i = 0; i < LEN(cases); i++) {
        backlog_t *backlog = backlog_new(cases[i].workers);

        for (int n = 0; n < 20; n++) {
            cr_assert_eq(put_held(backlog, "ac_1", BACKLOG_QUICK), 0);
            cr_assert_eq(put_held(backlog, "ac_1", BACKLOG_SLOW), 0);
        }
        for (int n = 0; n < cases[i].most; n++)
            takes(backlog, "ac_1");
        for (int n = 0; n < 5; n++) { /* whoever comes behind all of them */
            cr_assert_eq(put_held(backlog, "ac_2", BACKLOG_QUICK), 0);
            takes(backlog, "ac_2");
            backlog_done(backlog, BACKLOG_QUICK, "ac_2");
        }
        backlog_done(backlog, BACKLOG_QUICK, "ac_1");
        takes(backlog, "ac_1");
        backlog_destroy(&backlog);
    }
}

Test(backlog, what_waits_for_others_of_its_account_keeps_nobody_from_its_lane, .timeout = 20)
{
    backlog_t *backlog = backlog_new(WORKERS);

    for (int n = 0; n < 2; n++) {
        cr_assert_eq(put_held(backlog, "ac_1", BACKLOG_QUICK), 0);
        takes(backlog, "ac_1");
    }
    cr_assert_eq(put_held(backlog, "ac_1", BACKLOG_SLOW), 0); /* which is at its bound */
    cr_assert_eq(put_held(backlog, "ac_2", BACKLOG_SLOW), 0);
    takes(backlog, "ac_2");
    serves_guests(backlog);
    backlog_done(backlog, BACKLOG_SLOW, "ac_2");
    backlog_done(backlog, BACKLOG_QUICK, "ac_1");
    takes(backlog, "ac_1");
    backlog_destroy(&backlog);
}

Test(backlog, one_worker_is_whose_turn_it_is)
{
    backlog_t *backlog = backlog_new(1);

    cr_assert_eq(put_held(backlog, "ac_1", BACKLOG_QUICK), 0);
    takes(backlog, "ac_1");
    backlog_done(backlog, BACKLOG_QUICK, "ac_1");
    cr_assert_eq(put_held(backlog, "ac_1", BACKLOG_QUICK), 0);
    cr_assert_eq(put_held(backlog, "ac_2", BACKLOG_QUICK), 0);
    takes(backlog, "ac_1");
    takes(backlog, "ac_2");
    backlog_destroy(&backlog);
}
