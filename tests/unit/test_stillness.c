#include "common/store/stillness.h"
#include "common/store/pg.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { T0 = 1000000, STILL = PG_STATEMENT_TIMEOUT_MS + 1000 };

static pg_call_t call, other;
static stillness_t stillness;

static void add_calls(void)
{
    pg_call_add(&call);
    pg_call_add(&other);
}

TestSuite(stillness, .init = add_calls);

/* Look each half second, from the one time to the other. */
static int look(int64_t from_ms, int64_t to_ms)
{
    for (int64_t now = from_ms; now < to_ms; now += 500)
        stillness_look(&stillness, now);
    stillness_look(&stillness, to_ms);
    return stillness_seconds(&stillness);
}

Test(stillness, a_statement_takes_a_second_more_than_it_may_and_then_nobody_answers)
{
    pg_call_begin(&call, T0);
    cr_expect_eq(look(T0, T0 + STILL), 0);
    cr_expect_eq(look(T0 + STILL, T0 + STILL + 1), STILL / 1000);
    cr_expect_eq(look(T0 + STILL, T0 + 60000), 60);
    pg_call_end(&call, T0 + 60000, true);
    cr_expect_eq(look(T0 + 60000, T0 + 60050), 0);
}

/* What hangs then is one connection: it alone is to be made anew. */
Test(stillness, a_server_that_answers_others_does_not_stand_still)
{
    pg_call_begin(&call, T0);
    for (int64_t now = T0; now < T0 + 60000; now += 1000) {
        pg_call_begin(&other, now);
        pg_call_end(&other, now + 500, true);
        cr_expect_eq(look(now, now + 900), 0);
    }
    cr_expect_eq(look(T0 + 60000, T0 + 59500 + STILL), 0);
    cr_expect_eq(look(T0 + 59500 + STILL, T0 + 59501 + STILL), STILL / 1000);
}

Test(stillness, many_statements_in_a_row_are_none_that_is_long)
{
    for (int64_t now = T0; now < T0 + 60000; now += 1000) {
        pg_call_begin(&call, now);
        cr_expect_eq(look(now, now + 900), 0);
    }
}

Test(stillness, after_a_standstill_statements_that_are_new_are_not_counted_to_it)
{
    pg_call_begin(&call, T0);
    cr_expect_eq(look(T0, T0 + 10000), 10);
    pg_call_end(&call, T0 + 10000, true);
    pg_call_begin(&call, T0 + 10000);
    cr_expect_eq(look(T0 + 10000, T0 + 10050), 0);
}

Test(stillness, a_connection_that_is_lost_and_made_in_vain_goes_on_with_it)
{
    for (int64_t now = T0; now < T0 + 9000; now += 3000) {
        pg_call_begin(&call, now);
        look(now, now + 2900);
        pg_call_end(&call, now + 2900, false);
    }
    cr_expect_eq(look(T0 + 9000, T0 + 9100), 9);
    pg_call_begin(&other, T0 + 9200);
    pg_call_end(&other, T0 + 9200, true);
    cr_expect_eq(look(T0 + 9200, T0 + 9300), 0);
}

/* Of a server that goes on after a standstill, whose connections end one after the other. */
Test(stillness, a_connection_that_is_lost_says_nothing_of_the_time_before_others_were_answered)
{
    pg_call_begin(&call, T0);
    pg_call_begin(&other, T0);
    cr_expect_eq(look(T0, T0 + 9000), 9);
    pg_call_end(&call, T0 + 9000, true);
    cr_expect_eq(look(T0 + 9050, T0 + 9100), 0);
    pg_call_end(&other, T0 + 9150, false);
    cr_expect_eq(look(T0 + 9200, T0 + 9000 + STILL), 0);
    cr_expect_eq(look(T0 + 9000 + STILL, T0 + 9001 + STILL), STILL / 1000);
}

Test(stillness, a_process_that_stood_still_itself_does_not_blame_postgresql)
{
    pg_call_begin(&call, T0);
    look(T0, T0 + 100);
    cr_expect_eq(look(T0 + 60000, T0 + 60000 + STILL), 0);
    cr_expect_eq(look(T0 + 60000 + STILL, T0 + 61000 + STILL), STILL / 1000 + 1);
}

Test(stillness, a_connection_that_is_no_more_is_not_waited_for)
{
    pg_call_begin(&call, T0);
    pg_call_remove(&call);
    cr_expect_eq(look(T0, T0 + 60000), 0);
}

Test(stillness, is_logged_once_when_it_begins_and_once_when_it_is_over)
{
    char path[] = "/tmp/postern-stillness-XXXXXX", text[2000] = "", *over;
    int fd = mkstemp(path), own = dup(STDERR_FILENO);

    dup2(fd, STDERR_FILENO);
    pg_call_begin(&call, T0);
    look(T0, T0 + 60000);
    pg_call_end(&call, T0 + 60000, true);
    look(T0 + 60000, T0 + 90000);
    dup2(own, STDERR_FILENO);
    cr_assert_gt(pread(fd, text, sizeof(text) - 1, 0), 0);
    unlink(path);
    cr_assert_not_null(strstr(text, "PostgreSQL has not answered for 6 s"), "%s", text);
    over = strchr(text, '\n') + 1;
    cr_assert_not_null(strstr(over, "PostgreSQL answers again, after 60 s"), "%s", text);
    cr_assert_eq(strchr(over, '\n')[1], '\0', "two lines: %s", text);
}
