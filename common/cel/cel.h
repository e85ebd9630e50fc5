/* The Common Expression Language (github.com/google/cel-spec, doc/langdef.md): from source to a
 * checked tree. Lexer, parser and checker know the whole language except messages; a user that
 * supports less (list filters: no index, no arithmetic, ...) refuses the rest when it walks the
 * tree. Nothing is evaluated here. Source, nodes and depth are bounded. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { CEL_SOURCE_MAX = 4096, CEL_NODES_MAX = 1000, CEL_DEPTH_MAX = 64 };

typedef enum cel_type {
    CEL_DYN, /* a type that is known at run time only */
    CEL_NULL,
    CEL_BOOL,
    CEL_INT,
    CEL_UINT,
    CEL_DOUBLE,
    CEL_STRING,
    CEL_BYTES,
    CEL_LIST,
    CEL_MAP,
    CEL_TIMESTAMP,
    CEL_DURATION,
    CEL_TYPE
} cel_type_t;

typedef enum cel_op {
    CEL_CONSTANT, /* type says which member of value it is, or text */
    CEL_IDENT,    /* text */
    /* text: dotted name of a declared variable; the checker makes it of IDENT and SELECT */
    CEL_VARIABLE,
    CEL_SELECT,    /* first.text */
    CEL_INDEX,     /* first[second] */
    CEL_CALL,      /* text(children) */
    CEL_METHOD,    /* first.text(others) */
    CEL_MAKE_LIST, /* [children] */
    CEL_MAKE_MAP,  /* {key: value}: children in pairs */
    CEL_NOT,
    CEL_NEGATE,
    CEL_MULTIPLY,
    CEL_DIVIDE,
    CEL_MODULO,
    CEL_ADD,
    CEL_SUBTRACT,
    CEL_EQ,
    CEL_NE,
    CEL_LT,
    CEL_LE,
    CEL_GT,
    CEL_GE,
    CEL_IN,
    CEL_AND,
    CEL_OR,
    CEL_CONDITION /* first ? second : third */
} cel_op_t;

typedef struct cel_node {
    cel_op_t op;
    cel_type_t type;  /* type of the value; CEL_DYN before cel_check */
    size_t at;        /* byte of the source where the node begins */
    const char *text; /* without quotes and escapes, with a NUL behind it; bytes may hold NULs */
    size_t len;
    union {
        bool boolean;
        int64_t integer;
        uint64_t natural;
        double real;
    } value;
    struct cel_node *first, *next; /* first child; next sibling */
} cel_node_t;

typedef struct cel cel_t;

typedef struct cel_error {
    size_t at; /* byte of the source where the error is */
    char text[200];
} cel_error_t;

/* Is it that the environment has no variable of that name? */
bool cel_is_unknown_variable(const cel_error_t *error);

/* A function beside the standard ones. The target of a method is its first argument. */
typedef struct cel_function {
    const char *name;
    bool method;
    cel_type_t result;
    int count;
    cel_type_t arguments[3];
} cel_function_t;

/* Variables and functions that an expression may use. */
typedef struct cel_env {
    /* Find the type of a variable by its dotted name. False: there is no such variable. */
    bool (*find)(const void *context, const char *name, cel_type_t *ret_type);
    const void *context;
    const cel_function_t *functions; /* ended by a row with NULL name; may be NULL */
} cel_env_t;

/* Parse the source. 0 | 1: *error says what is wrong | -ENOMEM. */
int cel_parse(cel_t **ret_cel, const char *source, size_t len, cel_error_t *error);
void cel_destroy(cel_t **self_p);

/* The root of the tree; borrowed. */
const cel_node_t *cel_root(const cel_t *self);

/* Resolve variables, check functions and operand types, and set the type of each node. 0 | 1:
 * *error says what is wrong | -ENOMEM. */
int cel_check(cel_t *self, const cel_env_t *env, cel_error_t *error);

/* Name of a type as CEL writes it: "int", "string", ... */
const char *cel_type_name(cel_type_t type);
