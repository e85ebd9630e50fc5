/* Expressions of which the first that matches counts, such as the hundreds that name browsers. One
 * search costs about as much as reading the text once: texts that an expression cannot match
 * without (its atoms) are looked for all at once, and only expressions whose atoms are there are
 * tried. Time is linear in the text, whatever the expressions. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
    REGEX_LIST_MAX = 4096,       /* expressions */
    REGEX_LIST_BYTES = 256 << 10 /* what one of them may take when it is compiled and used */
};

typedef struct re2_list regex_list_t;

typedef struct regex_row {
    const char *pattern;
    bool ignores_case; /* of ASCII */
} regex_row_t;

/* What a group of the expression matched, in the text; text NULL: the group took no part. */
typedef struct regex_part {
    const char *text;
    size_t len;
} regex_part_t;

/* Compile count expressions of somebody trusted: none of them is bounded in what it takes to read.
 * 0 | -EINVAL, with the reason in why, and in *ret_bad the number of the expression: it is none, or
 * beyond REGEX_LIST_BYTES; or there are too many (*ret_bad is count). */
int regex_list_new(regex_list_t **ret_list, const regex_row_t *rows, size_t count, size_t *ret_bad,
                   char *why, size_t why_size);

/* The number of the first expression that matches anywhere in text, which is UTF-8; -1: none does.
 * parts, of which there are count, gets the whole match and then its groups. Any thread may search
 * at any time. */
int regex_list_first(const regex_list_t *self, const char *text, size_t len, regex_part_t *parts,
                     size_t count);

/* NULL is fine. */
void regex_list_destroy(regex_list_t **self_p);

#ifdef __cplusplus
}
#endif
