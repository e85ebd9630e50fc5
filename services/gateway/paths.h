/* HTTP method and path to kind and operation, by the tables in proto/. */
#pragma once

#include "common/schema/schema.h"

typedef struct target {
    const kind_t *kind;      /* NULL: there is no such path */
    unsigned operation;      /* 0: the path exists, but not with this method */
    const char *verb;        /* the verb's second half: "create", ... */
    char id[80], parent[80]; /* from the path; "" when it has none */
    const char *parent_key;  /* the field that parent is the value of; NULL */
    /* the module or list of members that the path names, or the command; "" */
    char module[40];
    char member[80]; /* the member of that list; "" */
    char allow[64];  /* value of the Allow header */
} target_t;

/* Why the interface's kind at this path is left out (proto/left_out.def); NULL: the interface has
 * no such path. */
const char *path_left_out(const char *path);

/* Find what a method and a path mean. *ret_target is set in any case; its kind is NULL where
 * nothing is at this path. */
void path_match(const char *method, const char *path, target_t *ret_target);
