/* Between the files that check requests only: check_value.c (one value against its field), check.c
 * (objects and their fields). */
#pragma once

#include "common/schema/schema.h"

enum { SCHEMA_PATH_MAX = 160 };

/* Append a field's name to a path, for error texts: backend.tls.enabled. Cut at SCHEMA_PATH_MAX. */
void schema_path(char out[SCHEMA_PATH_MAX], const char *path, const char *name);

/* Check a value that is present and not null. *ret_value: the form to be stored, owned by the
 * caller, or NULL; may also be set when a code is returned. 0 | code, added to problem | fault. */
int schema_check_value(const field_t *field, const json_t *value, const char *path,
                       problem_t *problem, json_t **ret_value);

/* Check all fields of an object into out. 0 | the first code of problem | fault. */
int schema_check_object(const object_type_t *type, unsigned operation, const json_t *old,
                        const json_t *body, const char *path, problem_t *problem, json_t *out);
