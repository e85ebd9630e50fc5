/* Migrations of a service's schema, each known by its name for ever. */
#pragma once

#include "common/store/pg.h"

/* One file of SQL. The build makes the list from the files that there are:
 * deploy/embed-migrations. */
typedef struct migration {
    const char *name; /* folder and file, "routes/0004_tunnels"; NULL ends a list */
    int number;       /* that stood for it before migrations had names; 0: it always had its name */
    const char *sql;
} migration_t;

enum { MIGRATION_SUM_HEX = 64 };

/* SHA-256 of the SQL, in hex. */
void migration_sum(const migration_t *self, char out[MIGRATION_SUM_HEX + 1]);

/* What a row of the table migration says. */
typedef enum migration_state {
    MIGRATION_APPLIED,
    MIGRATION_UNKNOWN, /* a newer version applied it */
    MIGRATION_CHANGED  /* it was applied with other SQL than this */
} migration_state_t;

/* Of a row with this name and sum, to a version that has this list. sum "": whoever wrote the row
 * did not know it. */
migration_state_t migration_judge(const migration_t *list, const char *name, const char *sum);

/* Apply, in the order of the list, what is not applied yet: all of it or nothing, under a lock that
 * all copies of all services share; not as a user who could do more than the schema's owner must. A
 * database whose migrations have numbers gives them their names first. 0 | -EPERM: the user is not
 * as it must be | -EINVAL: what the database says of its migrations is not | fault. */
int migrate(pg_t *pg, const migration_t *list);
