/* The filter of a list: a CEL expression over obj, an object of the kind, turned into a SQL
 * condition with parameters. Expressions that SQL cannot evaluate with an index or in one pass over
 * the rows are refused: indices, arithmetic, ?:, regular expressions, type tests, macros. */
#pragma once

#include "common/schema/schema.h"

enum { FILTER_PARAMS_MAX = 40 };

typedef struct filter {
    char sql[16384];                       /* a condition over the table "t" */
    const char *params[FILTER_PARAMS_MAX]; /* of the placeholders, in order */
    char *owned[FILTER_PARAMS_MAX];
    int count;
} filter_t;

/* Compile. The first placeholder gets the number first. 0 | 1: problem says what is wrong with the
 * filter | -ENOMEM. */
int filter_compile(filter_t *self, const kind_t *kind, const char *source, int first,
                   problem_t *problem);
void filter_done(filter_t *self);
