/* Checks that every stored field of proto/ has a column, and every derived one its function. Without this check a value whose column is
 * missing would be lost silently: PostgreSQL's jsonb_populate_record ignores unknown keys. So a
 * service whose migration was forgotten does not start. */
#pragma once

#include "common/schema/schema.h"
#include "common/store/pg.h"

/* Is a value of this field kept in a column of the kind's table? */
bool columns_has(const field_t *field);

/* Check all kinds of the service in the connection's schema. 0 | -EINVAL: the fault names kind and
 * field | as pg_exec. */
int columns_check(pg_t *pg, const char *service);
