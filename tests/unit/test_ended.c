/* What edges say of streams that changes ended. */
#include "common/resource/ended.h"

#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

typedef struct text_case {
    const char *text, *written;
    bool is_read;
} text_case_t;

static const text_case_t texts[] = {
    {NULL, "", true},
    {"", "", true},
    {"7 3", "7 3", true},
    {"9 1 7 3", "7 3 9 1", true},
    {"7 3 7 2", "7 5", true}, /* one revision, once */
    {"9223372036854775807 1099511627776", "9223372036854775807 1099511627776", true},
    {"7", "", false},
    {"7 ", "", false},
    {"7 3 ", "7 3", true},
    {" 7 3", "", false},
    {"7  3", "", false},
    {"7 -3", "", false},
    {"-7 3", "", false},
    {"7 3x", "", false},
    {"7 1099511627777", "", false},
    {"9223372036854775808 1", "", false},
    {"1 1 2 1 3 1 4 1 5 1 6 1 7 1 8 1 9 1 10 1 11 1 12 1 13 1 14 1 15 1 16 1 17 1", "", false},
};

Test(ended, what_is_no_such_text_says_nothing)
{
    for (size_t i = 0; i < LEN(texts); i++) {
        ended_t ended = {.count = 1, .list = {{5, 5}}};
        char out[ENDED_BYTES];

        cr_assert_eq(ended_read(&ended, texts[i].text), texts[i].is_read, "%zu", i);
        ended_write(&ended, out);
        cr_assert_str_eq(out, texts[i].written, "%zu: %s", i, out);
    }
}

Test(ended, is_the_sum_of_all_workers_for_each_revision)
{
    ended_t sum = {0}, one;

    cr_assert(ended_read(&one, "7 3 9 1"));
    ended_add(&sum, &one);
    cr_assert(ended_read(&one, "9 4 8 2"));
    ended_add(&sum, &one);
    cr_assert_eq(ended_at(&sum, 7), 3);
    cr_assert_eq(ended_at(&sum, 8), 2);
    cr_assert_eq(ended_at(&sum, 9), 5);
    cr_assert_eq(ended_at(&sum, 10), 0);
}

Test(ended, keeps_the_newest_revisions)
{
    ended_t sum = {0};
    char text[64];

    for (int i = 0; i < 40; i++) {
        ended_t one;

        snprintf(text, sizeof(text), "%d 1", i * 17 % 40);
        cr_assert(ended_read(&one, text));
        ended_add(&sum, &one);
    }
    cr_assert_eq(sum.count, ENDED_MAX);
    for (int i = 0; i < 40; i++)
        cr_assert_eq(ended_at(&sum, i), i >= 40 - ENDED_MAX, "%d", i);
}

Test(ended, what_an_acknowledgement_repeats_is_counted_once)
{
    ended_t before, now;

    cr_assert(ended_read(&before, "7 3 9 1"));
    cr_assert(ended_read(&now, "7 3 9 1"));
    cr_assert_eq(ended_more(&now, &before), 0);
    cr_assert(ended_read(&now, "9 4 11 2"));
    cr_assert_eq(ended_more(&now, &before), 5);
    cr_assert(ended_read(&now, "9 0"));
    cr_assert_eq(ended_more(&now, &before), 0);
}
