/* The operations of resources, as proto/operations.def has them. */
#pragma once

#include <stdbool.h>

/* One bit each: OPERATION_CREATE and so on. */
enum {
#define OPERATION(word, ...) OPERATION_INDEX_##word,
#include "proto/operations.def"
    OPERATIONS
};

enum {
#define OPERATION(word, ...) OPERATION_##word = 1 << OPERATION_INDEX_##word,
#include "proto/operations.def"
};

/* Where, seen from the kind's path. */
typedef enum operation_place {
    PLACE_NOWHERE = 0,
    PLACE_COLLECTION = 1 << 0,
    PLACE_OBJECT = 1 << 1,     /* an id below */
    PLACE_MODULE = 1 << 2,     /* a MODULE field of the object */
    PLACE_DETACHABLE = 1 << 3, /* a DETACH field */
    PLACE_MEMBERS = 1 << 4,    /* a LISTED field */
    PLACE_MEMBER = 1 << 5,     /* one of its items */
    PLACE_COMMAND = 1 << 6
} operation_place_t;

/* What a request has in its body. */
enum {
    BODY_NO_BODY = 0,
    BODY_WHOLE = 1 << 0,    /* all fields of an object, module or member */
    BODY_PATCH = 1 << 1,    /* those that change */
    BODY_OR_EMPTY = 1 << 2, /* no body means {} */
    BODY_ANY_BODY = 1 << 3  /* whatever there is, which is ignored */
};

/* And its answer. */
typedef enum operation_answer {
    ANSWER_NOTHING,
    ANSWER_OBJECT,
    ANSWER_OBJECTS, /* a page of them */
    ANSWER_MODULE,
    ANSWER_MEMBERS,
    ANSWER_MEMBER
} operation_answer_t;

/* The key under which a request on the bus names the part of an object that it is at: a module, a
 * field to detach, a command, or a list of members. It is called after the first of them and keeps
 * that name, because it is part of what makes a request the same as an earlier one: one that a
 * client repeats, or that is sent again to a copy of another version, is to be done once. */
#define OPERATION_PART "module"

typedef struct operation {
    const char *name; /* the verb's second half: "create", ... */
    unsigned bit;     /* OPERATION_CREATE, ... */
    const char *method;
    unsigned places; /* bits of operation_place_t */
    unsigned needs;  /* the operation that a kind must have */
    bool changes;    /* something; else it only reads */
    int status;      /* HTTP's, of success */
    unsigned body;   /* bits of BODY_... */
    operation_answer_t answer;
} operation_t;

/* All rows, ended by a NULL name. */
const operation_t *operation_all(void);

/* By its bit, which is one of OPERATION_...: there is a row for each. */
const operation_t *operation_row(unsigned bit);
