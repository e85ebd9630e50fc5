#include "common/resource/roster.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static int take(void *roster, const char *text)
{
    cr_assert_lt(strlen(text), 8000);
    return roster_take(roster, text, 1000) < 0 ? -1 : 0;
}

static void says(roster_t *roster, const char *copy, int64_t number, const char *log,
                 const roster_worker_t *workers, int count)
{
    cr_assert_eq(roster_write(copy, number, log, workers, count, take, roster), 0);
}

Test(roster, knows_what_other_copies_hear_and_not_what_it_said_itself)
{
    roster_t *roster = roster_new("me");
    int64_t acked;

    says(roster, "me", 1, "log", (roster_worker_t[]){{"edge/0", 9, false}}, 1);
    cr_assert_eq(roster_copies(roster), 0);
    says(roster, "a", 1, "log",
         (roster_worker_t[]){{"edge/0", 7, false}, {"edge \"1\"/1", 8, false}}, 2);
    says(roster, "b", 1, "log", (roster_worker_t[]){{"edge/0", 6, false}}, 1);
    cr_assert_eq(roster_copies(roster), 2);
    cr_assert(roster_hears(roster, "log", "edge/0", &acked));
    cr_assert_eq(acked, 6);
    cr_assert_not(roster_lacks(roster, "edge/0"));
    cr_assert(roster_lacks(roster, "edge \"1\"/1"));
    cr_assert_not(roster_hears(roster, "log", "edge/2", &acked));
    says(roster, "a", 2, "log", NULL, 0);
    cr_assert(roster_hears(roster, "log", "edge/0", &acked));
    cr_assert_eq(acked, 6);
    cr_assert_not(roster_hears(roster, "log", "edge \"1\"/1", &acked));
    roster_destroy(&roster);
}

Test(roster, counts_nothing_that_was_acknowledged_of_another_log)
{
    roster_t *roster = roster_new("me");
    int64_t acked;

    says(roster, "a", 1, "older", (roster_worker_t[]){{"edge/0", 7, false}}, 1);
    cr_assert(roster_hears(roster, "log", "edge/0", &acked));
    cr_assert_eq(acked, 0);
    roster_destroy(&roster);
}

static void count(void *context, const roster_worker_t *worker)
{
    int64_t *sum = context;

    cr_assert(worker->name && worker->acked > 0);
    *sum += worker->acked;
}

/* Its connection to one copy broke; it may be connected to another. */
Test(roster, waits_for_a_worker_that_a_copy_lost_unless_another_hears_it)
{
    roster_t *roster = roster_new("me");
    int64_t sum = 0;

    says(roster, "a", 1, "log", (roster_worker_t[]){{"e/0", 1, true}, {"e/1", 10, true}}, 2);
    says(roster, "b", 1, "log", (roster_worker_t[]){{"e/1", 100, false}}, 1);
    cr_assert(roster_lacks(roster, "e/0"));
    cr_assert(roster_lacks(roster, "e/1"));
    roster_each(roster, "log", count, &sum);
    cr_assert_eq(sum, 101);
    roster_destroy(&roster);
}

/* More than a notification takes. */
Test(roster, takes_many_workers_in_parts_and_none_before_the_last)
{
    enum { MANY = 700 };
    static char names[MANY][128];
    static roster_worker_t workers[MANY];
    roster_t *roster = roster_new("me");
    int64_t sum = 0;

    for (int i = 0; i < MANY; i++) {
        snprintf(names[i], sizeof(names[i]), "%0100d/%d", i, i);
        workers[i] = (roster_worker_t){names[i], 1, false};
    }
    says(roster, "a", 1, "log", workers, MANY);
    roster_each(roster, "log", count, &sum);
    cr_assert_eq(sum, MANY);
    cr_assert_eq(roster_take(roster,
                             "{\"copy\":\"a\",\"number\":2,\"part\":0,\"last\":false,"
                             "\"log\":\"log\",\"workers\":{},\"lost\":{}}",
                             1000),
                 0);
    sum = 0;
    roster_each(roster, "log", count, &sum);
    cr_assert_eq(sum, MANY);
    cr_assert_eq(roster_take(roster,
                             "{\"copy\":\"a\",\"number\":3,\"part\":1,\"last\":true,"
                             "\"log\":\"log\",\"workers\":{},\"lost\":{}}",
                             1000),
                 0);
    sum = 0;
    roster_each(roster, "log", count, &sum);
    cr_assert_eq(sum, MANY, "a part without those before it is none");
    roster_destroy(&roster);
}

Test(roster, forgets_copies_that_are_silent)
{
    roster_t *roster = roster_new("me");

    says(roster, "a", 1, "log", NULL, 0);
    cr_assert_not(roster_expire(roster, 1000));
    roster_spare(roster, 5000);
    cr_assert_not(roster_expire(roster, 5000));
    cr_assert(roster_expire(roster, 5001));
    cr_assert_eq(roster_copies(roster), 0);
    roster_destroy(&roster);
}

/* Else a copy that is gone could be kept alive with what it said. */
Test(roster, takes_nothing_that_was_said_before)
{
    static const char again[] = "{\"copy\":\"a\",\"number\":%d,\"part\":%d,\"last\":true,"
                                "\"log\":\"log\",\"workers\":{\"e/1\":9},\"lost\":{}}";
    roster_t *roster = roster_new("me");
    char text[256];
    int64_t acked;

    says(roster, "a", 7, "log", NULL, 0);
    for (int number = 1; number <= 7; number++) {
        snprintf(text, sizeof(text), again, number, 0);
        cr_assert_eq(roster_take(roster, text, 5000), -ESTALE);
    }
    cr_assert_not(roster_hears(roster, "log", "e/1", &acked));
    cr_assert(roster_expire(roster, 5000));
    cr_assert_eq(roster_copies(roster), 0);
    roster_destroy(&roster);
}

Test(roster, refuses_what_is_no_message)
{
    static const char *const texts[] = {"", "{}", "[]", "{\"copy\":1}",
                                        "{\"copy\":\"a\",\"number\":1,\"part\":0,\"last\":true,"
                                        "\"log\":\"l\",\"workers\":[],\"lost\":{}}"};
    roster_t *roster = roster_new("me");

    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        cr_assert_lt(roster_take(roster, texts[i], 1), 0, "%s", texts[i]);
    cr_assert_eq(roster_copies(roster), 0);
    roster_destroy(&roster);
}
