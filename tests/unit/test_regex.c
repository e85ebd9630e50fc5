/* Expressions from outside: what they cost to read is bounded, too. */
#include "common/codec/regex.h"
#include "common/codec/regex_list.h"

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

/* So many expressions that lead to another state with nearly each byte. */
static regex_set_t *a_set_that_grows(size_t count)
{
    char texts[40][40], why[200];
    const char *patterns[40];
    regex_set_t *set = NULL;

    for (size_t i = 0; i < count; i++) {
        snprintf(texts[i], sizeof(texts[i]), "[ab]*a[ab]{12}c%zu", i);
        patterns[i] = texts[i];
    }
    cr_assert_eq(regex_set_new(&set, patterns, count, why, sizeof(why)), 0, "%s", why);
    return set;
}

Test(regex, a_search_has_a_bound_that_falls_as_the_set_grows)
{
    static char text[REGEX_SET_WORK];
    size_t before = REGEX_SET_WORK;

    for (size_t i = 0; i < sizeof(text); i++)
        text[i] = "ab"[i * i / 7 % 2];
    for (size_t count = 1; count <= 40; count += 13) {
        regex_set_t *set = a_set_that_grows(count);
        size_t max = regex_set_text_max(set);

        cr_assert(max < before && max >= REGEX_SET_SURE, "%zu: %zu", count, max);
        before = max;
        cr_assert_eq(regex_set_search(set, text, max), REGEX_FOUND_NONE);
        cr_assert_eq(regex_set_search(set, text, max + 1), REGEX_FOUND_UNKNOWN);
        regex_set_destroy(&set);
    }
}

Test(regex, a_search_of_256_bytes_is_always_done)
{
    static const char *const patterns[] = {"\\pL+1"};
    char text[REGEX_SET_SURE + 2], why[200];
    regex_set_t *set = NULL;

    memset(text, 'x', sizeof(text));
    cr_assert_eq(regex_set_new(&set, patterns, 1, why, sizeof(why)), 0, "%s", why);
    text[REGEX_SET_SURE - 1] = '1';
    cr_assert_eq(regex_set_search(set, text, REGEX_SET_SURE), REGEX_FOUND_ONE);
    regex_set_destroy(&set);
}

Test(regex, the_first_of_a_list_that_matches_counts)
{
    static const regex_row_t rows[] = {
        {"firefox/(\\d+)", false},
        {"Firefox/(\\d+)(z)?", false},
        {"FOX", true},
        {"a.c", false},
        {"^x", false},
    };
    static const struct {
        const char *text, *group;
        int want;
    } cases[] = {
        {"Firefox/140", "140", 1}, {"firefox/1", "1", 0}, {"a fox", NULL, 2}, {"abc x", NULL, 3},
        {"xa", NULL, 4},           {"nothing", NULL, -1}, {"", NULL, -1},
    };
    regex_list_t *list = NULL;
    char why[200];
    size_t bad;

    cr_assert_eq(regex_list_new(&list, rows, sizeof(rows) / sizeof(*rows), &bad, why, 200), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        regex_part_t parts[3];
        size_t len = strlen(cases[i].text);

        cr_expect_eq(regex_list_first(list, cases[i].text, len, parts, 3), cases[i].want, "%s",
                     cases[i].text);
        if (cases[i].group)
            cr_expect(parts[1].len == strlen(cases[i].group)
                          && !memcmp(parts[1].text, cases[i].group, parts[1].len) && !parts[2].text,
                      "%s", cases[i].text);
    }
    regex_list_destroy(&list);
}

Test(regex, a_list_names_what_is_no_expression)
{
    static const regex_row_t rows[] = {{"a", false}, {"(", false}};
    regex_list_t *list = NULL;
    char why[200] = "";
    size_t bad;

    cr_assert_eq(regex_list_new(&list, rows, 2, &bad, why, sizeof(why)), -EINVAL);
    cr_assert_eq(bad, 1);
    cr_assert(*why);
    cr_assert_eq(regex_list_new(&list, rows, 0, &bad, why, sizeof(why)), 0);
    cr_assert_eq(regex_list_first(list, "a", 1, NULL, 0), -1);
    regex_list_destroy(&list);
}
