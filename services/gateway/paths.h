/* HTTP path and method to kind and operation, from proto/kinds.def. */
#pragma once

#include "common/schema/schema.h"

typedef struct target {
    const kind_t *kind;      /* NULL: no such path */
    unsigned operation;      /* 0: the path exists, this method does not */
    const char *verb;        /* "create", ... */
    char id[80], parent[80]; /* from the path; "" when it has none */
    const char *parent_key;  /* the field that parent is the value of; NULL */
    char module[40];         /* the part of the object that the path names, or the command; "" */
    char member[80];         /* the item of that part; "" */
    char allow[64];          /* for the Allow header */
} target_t;

/* Why the kind at this path is not there; NULL: it is no path of the interface. */
const char *path_left_out(const char *path);

void path_match(const char *method, const char *path, target_t *ret_target);
