/* Outcomes: 0 is success, positive an answer from proto/errors.def, negative a fault (-errno). */
#pragma once

#include <jansson.h>

enum {
#define OUTCOME(name, code, status, situation, text) ERR_##name = code,
#include "proto/errors.def"
};

typedef struct outcome {
    int code;
    int status; /* status of HTTP */
    const char *name;
    const char *situation;
    const char *text;
} outcome_t;

/* The row of an answer; NULL: no row has this code. */
const outcome_t *outcome_find(int code);

/* All rows; the last one has code 0. */
const outcome_t *outcome_all(void);

/* Short name for logs: OK, NOT_FOUND, or errno's text for a fault. */
const char *outcome_name(int r);

/* Note where a fault began (thread-local); returns it. An unexpected answer becomes -EPROTO. */
int fault(int r, const char *what);

/* Text of the last fault() on this thread; "" when there was none. */
const char *fault_text(void);

/* Collects the problems of a request: the first sets the code, the first hundred go into
 * details. */
typedef struct problem {
    int code;
    char msg[512];
    json_t *details; /* field -> text; owned */
} problem_t;

/* Add a problem; field may be NULL. Field and text are made printable UTF-8. Returns code. */
int problem_add(problem_t *self, int code, const char *field, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Free the details. */
void problem_done(problem_t *self);
