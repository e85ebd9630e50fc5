/* Leases: what a peer may remember, and when nobody acts on it any more. */
#include "common/bus/lease.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { START = 1000000, SETTLED = START + LEASE_MS };

/* What was said last, and how often anything was. */
typedef struct said {
    char holder[32], word[16], epoch[24], clock[24];
    int count;
} said_t;

static void copy_frame(char *out, size_t size, zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    snprintf(out, size, "%s", text ? text : "");
}

static void on_say(void *context, zmsg_t **msg)
{
    said_t *said = context;

    copy_frame(said->holder, sizeof(said->holder), *msg);
    copy_frame(said->word, sizeof(said->word), *msg);
    copy_frame(said->epoch, sizeof(said->epoch), *msg);
    copy_frame(said->clock, sizeof(said->clock), *msg);
    said->count++;
    zmsg_destroy(msg);
}

static leases_t some_leases(said_t *said)
{
    leases_t leases;

    leases_init(&leases, on_say, said, START);
    return leases;
}

static bool asks(leases_t *leases, const char *holder, int64_t epoch, int64_t now_ms)
{
    _cleanup_(zmsg_destroy) zmsg_t *msg = zmsg_new();

    zmsg_addstr(msg, holder);
    zmsg_addstr(msg, "lease");
    zmsg_addstrf(msg, "%" PRId64, epoch);
    zmsg_addstrf(msg, "%" PRId64, now_ms - 7);
    return leases_take(leases, msg, now_ms);
}

Test(leases, of_the_process_before_may_run_for_as_long_as_one_lasts)
{
    said_t said = {0};
    leases_t leases = some_leases(&said);

    cr_assert_not(leases_settled(&leases, leases.epoch, START));
    cr_assert_not(leases_settled(&leases, leases.epoch, SETTLED - 1));
    cr_assert(leases_settled(&leases, leases.epoch, SETTLED));
    leases_done(&leases);
}

Test(leases, are_granted_under_the_epoch_that_counts_and_name_the_askers_clock)
{
    said_t said = {0};
    leases_t leases = some_leases(&said);
    char epoch[24];

    cr_assert(asks(&leases, "gateway", 3, START));
    snprintf(epoch, sizeof(epoch), "%" PRId64, leases.epoch);
    cr_assert_str_eq(said.holder, "gateway");
    cr_assert_str_eq(said.word, "lease");
    cr_assert_str_eq(said.epoch, epoch, "not the one that it asked with");
    cr_assert_str_eq(said.clock, "999993");
    leases_done(&leases);
}

/* One holder that has the epoch before, or asks with the new one, at a moment after the
 * revocation. */
typedef struct settled_case {
    char claim[64];
    bool asks_again, with_new;
    int64_t asked_ms, looked_ms; /* after the first ask */
    bool want;
} settled_case_t;

static const settled_case_t settled_cases[] = {
    {"it has not answered", false, false, 0, 10, false},
    {"its lease has a millisecond left", false, false, 0, LEASE_MS - 1, false},
    {"its lease ran out", false, false, 0, LEASE_MS, true},
    {"it asked with the new epoch", true, true, 10, 10, true},
    {"it asked with the old one, which crossed the revocation", true, false, 10, 20, false},
    {"that renewed its lease", true, false, 500, LEASE_MS, false},
    {"and that one ran out, too", true, false, 500, LEASE_MS + 500, true},
};

Test(leases, a_change_waits_until_every_holder_forgot_or_its_lease_ran_out)
{
    for (size_t i = 0; i < LEN(settled_cases); i++) {
        const settled_case_t *one = &settled_cases[i];
        said_t said = {0};
        leases_t leases = some_leases(&said);
        int64_t old = leases.epoch, epoch;

        asks(&leases, "gateway", old, SETTLED);
        epoch = leases_revoke(&leases);
        cr_assert_gt(epoch, old);
        cr_assert_str_eq(said.word, "revoke");
        if (one->asks_again)
            asks(&leases, "gateway", one->with_new ? epoch : old, SETTLED + one->asked_ms);
        cr_assert_eq(leases_settled(&leases, epoch, SETTLED + one->looked_ms), one->want, "%s",
                     one->claim);
        leases_done(&leases);
    }
}

Test(leases, a_change_waits_for_each_holder_and_tells_each)
{
    said_t said = {0};
    leases_t leases = some_leases(&said);
    int64_t first, second;

    asks(&leases, "a", leases.epoch, SETTLED);
    asks(&leases, "b", leases.epoch, SETTLED);
    said.count = 0;
    first = leases_revoke(&leases);
    cr_assert_eq(said.count, 2);
    second = leases_revoke(&leases);
    cr_assert_gt(second, first, "an epoch is never used twice");
    asks(&leases, "a", second, SETTLED + 1);
    cr_assert_not(leases_settled(&leases, first, SETTLED + 1), "b has said nothing");
    asks(&leases, "b", first, SETTLED + 2);
    cr_assert(leases_settled(&leases, first, SETTLED + 2));
    cr_assert_not(leases_settled(&leases, second, SETTLED + 2), "b knows of the first only");
    leases_done(&leases);
}

Test(leases, are_so_many_and_one_that_ran_out_gives_its_place_away)
{
    said_t said = {0};
    leases_t leases = some_leases(&said);
    char name[16];

    for (int i = 0; i < LEASES_MAX; i++) {
        snprintf(name, sizeof(name), "gateway%d", i);
        asks(&leases, name, leases.epoch, START + i);
    }
    cr_assert_eq(said.count, LEASES_MAX);
    cr_assert(asks(&leases, "late", leases.epoch, START + LEASES_MAX), "it is understood");
    cr_assert_eq(said.count, LEASES_MAX, "and gets no lease");
    asks(&leases, "late", leases.epoch, START + LEASE_MS);
    cr_assert_str_eq(said.holder, "late");
    cr_assert_eq(leases.count, LEASES_MAX, "one place was free");
    leases_done(&leases);
}

Test(leases, take_nothing_that_is_no_ask)
{
    const char *const frames[][5] = {
        {"gateway", "lease", "1"},
        {"gateway", "lease", "1", "2", "3"},
        {"gateway", "leases", "1", "2"},
        {"gateway"},
    };
    said_t said = {0};
    leases_t leases = some_leases(&said);

    for (size_t i = 0; i < LEN(frames); i++) {
        _cleanup_(zmsg_destroy) zmsg_t *msg = zmsg_new();
        size_t n = 0;

        for (; n < LEN(frames[i]) && frames[i][n]; n++)
            zmsg_addstr(msg, frames[i][n]);
        cr_assert_not(leases_take(&leases, msg, START), "%zu", i);
        cr_assert_eq(zmsg_size(msg), n, "it is left as it was");
    }
    cr_assert_eq(said.count, 0);
    leases_done(&leases);
}
