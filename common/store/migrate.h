/* Migrations of a service's schema, identified by name. A name never changes. */
#pragma once

#include "common/store/pg.h"

/* One file of SQL. deploy/embed-migrations makes the list from the files at build time. */
typedef struct migration {
    const char *name; /* folder and file, "routes/0004_tunnels"; NULL ends a list */
    int number;       /* its id before migrations had names; 0: it always had a name */
    const char *sql;
} migration_t;

enum { MIGRATION_SUM_HEX = 64 };

/* SHA-256 of the SQL, in hex. */
void migration_sum(const migration_t *self, char out[MIGRATION_SUM_HEX + 1]);

/* State of a row of the table migration, compared with the program's list. */
typedef enum migration_state {
    MIGRATION_APPLIED,
    MIGRATION_UNKNOWN, /* a newer version applied it */
    MIGRATION_CHANGED  /* it was applied with other SQL than this */
} migration_state_t;

/* Compare a row's name and checksum with the list. sum "": the row was written by a version without
 * checksums. */
migration_state_t migration_judge(const migration_t *list, const char *name, const char *sum);

/* Apply the migrations that are missing, in the order of the list, in one transaction and under a
 * lock that all copies of all services share. A database that has only numbers is upgraded to names
 * first. 0 | -EPERM: the database user has wrong privileges | -EINVAL: an applied migration differs
 * from the list's | PG_DOWN | PG_BUSY: a backup or another migration holds a lock, nothing was
 * done, try again | fault. */
int migrate(pg_t *pg, const migration_t *list);
