/* Shared by the files of common/cel only. */
#pragma once

#include "common/cel/cel.h"

typedef enum cel_token_type {
    TOKEN_END,
    TOKEN_IDENT,
    TOKEN_QUOTED_IDENT, /* `text`, allowed behind a dot only */
    TOKEN_INT,
    TOKEN_UINT,
    TOKEN_DOUBLE,
    TOKEN_STRING,
    TOKEN_BYTES,
    TOKEN_SIGN /* punctuation and operators, and the keyword in */
} cel_token_type_t;

typedef struct cel_token {
    cel_token_type_t type;
    size_t at;
    const char *text; /* of identifiers, signs and literals; a NUL behind it */
    size_t len;
    union {
        int64_t integer; /* INT: the number without its sign, which the parser adds */
        uint64_t natural;
        double real;
    } value;
} cel_token_t;

struct cel {
    const char *source, *end, *at; /* at: behind the current token */
    cel_token_t token;             /* the current token */
    /* texts and nodes; allocated once, for the most that the source can need */
    char *arena;
    size_t arena_used, arena_size;
    int nodes, depth;
    cel_node_t *root;
    cel_error_t *error;
};

/* Read the next token into self->token. 0 | 1. */
int cel_lex(cel_t *self);

/* Note the first error; always returns 1. */
int cel_fail(cel_t *self, size_t at, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Memory of the arena, aligned. NULL, and an error is noted: the expression is too large. */
void *cel_alloc(cel_t *self, size_t size);
