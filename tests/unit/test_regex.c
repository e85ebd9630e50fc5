/* Expressions from outside: what they cost to read is bounded, too. */
#include "common/codec/regex.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* An expression whose text has the part so many times. */
static char *repeated(char *out, const char *before, const char *part, int times, const char *after)
{
    strcpy(out, before);
    for (int i = 0; i < times; i++)
        strcat(out, part);
    return strcat(out, after);
}

Test(regex, classes_that_may_have_all_characters_are_counted)
{
    static const struct {
        const char *before, *part, *after;
    } cases[] = {
        {"(?i)[", "\\PL", "]a"},   {"(?i)[", "\\p{Lu}", "]a"},  {"[", "\\W", "]"},
        {"[", "[:^alpha:]", "]"},  {"[", "a-\\x{10ffff}", "]"}, {"[", "a-\xc3\xa9", "]"},
        {"(?i)(", "\\D|", "\\S)"},
    };
    char pattern[1000], why[200];

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        regex_t *regex = NULL;
        regex_set_t *set = NULL;
        const char *patterns[2] = {pattern, "a"};

        repeated(pattern, cases[i].before, cases[i].part, REGEX_SET_WIDE + 1, cases[i].after);
        cr_assert_eq(regex_new(&regex, pattern, why, sizeof(why)), -EINVAL, "%s", pattern);
        cr_assert_not_null(strstr(why, "more than 32"), "%s: %s", pattern, why);
        cr_assert_eq(regex_set_new(&set, patterns, 2, why, sizeof(why)), -EINVAL, "%s", pattern);
        repeated(pattern, cases[i].before, cases[i].part, 3, cases[i].after);
        cr_assert_eq(regex_new(&regex, pattern, why, sizeof(why)), 0, "%s: %s", pattern, why);
        regex_destroy(&regex);
    }
}

Test(regex, they_are_counted_over_all_of_a_list)
{
    const char *patterns[REGEX_SET_WIDE + 1];
    regex_set_t *set = NULL;
    char why[200];

    for (size_t i = 0; i <= REGEX_SET_WIDE; i++)
        patterns[i] = "^\\W";
    cr_assert_eq(regex_set_new(&set, patterns, REGEX_SET_WIDE, why, sizeof(why)), 0, "%s", why);
    regex_set_destroy(&set);
    cr_assert_eq(regex_set_new(&set, patterns, REGEX_SET_WIDE + 1, why, sizeof(why)), -EINVAL);
}

Test(regex, fifty_usual_ones_are_none_of_them)
{
    const char *patterns[50];
    regex_set_t *set = NULL;
    char why[200];

    for (size_t i = 0; i < 50; i++)
        patterns[i] = "^Mozilla/[0-9]+ [a-z-]+ bot-\\d+";
    cr_assert_eq(regex_set_new(&set, patterns, 50, why, sizeof(why)), 0, "%s", why);
    regex_set_destroy(&set);
}
