/* HTTP method and path to kind and operation, by the tables in proto/. */
#pragma once

#include "common/schema/schema.h"

typedef struct target {
    const kind_t *kind;           /* NULL: there is no such path */
    const operation_t *operation; /* NULL: the path exists, but not with this method */
    char id[80], parent[80];      /* from the path; "" when it has none */
    const char *parent_key;       /* the field that parent is the value of; NULL */
    /* the module, field to detach, list of members, or command that the path names; "" */
    char part[40];
    char member[80]; /* the member of that list; "" */
    char allow[64];  /* value of the Allow header */
} target_t;

/* Why this path of the interface is not served (proto/left_out.def); NULL: it is not such a
 * path. */
const char *path_left_out(const char *path);

/* Find what a method and a path mean. *ret_target is set in any case; its kind is NULL where
 * nothing is at this path. */
void path_match(const char *method, const char *path, target_t *ret_target);
