#include "common/store/migrate.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"
#include "common/base/log.h"
#include "common/base/quote.h"

#include <errno.h>
#include <sodium.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* ---- the database user ---- */

/* The names of the schemas: those of services with a database (deploy/database.sql). */
#define SCHEMA_OF_DATABASE(name) ", '" name "'"
#define SCHEMA_OF_NO_DATABASE(name)
#define SERVICE(role, name, requests, database, config_log, about) SCHEMA_OF_##database(#name)

/* Columns: the connection's role; the first thing that is wrong with its privileges, or NULL; the
 * owners of other services' schemas that let this role in. The last is only a warning: a role may
 * open its own schema to anybody, and up to PostgreSQL 15 make anybody a member of itself. That
 * harms its own service alone, and must not keep the others from starting. */
static const char role_sql[] =
    "WITH RECURSIVE given AS (SELECT oid AS role FROM pg_roles WHERE rolname = current_user UNION "
    "SELECT m.roleid FROM pg_auth_members m JOIN given ON m.member = given.role "
    "WHERE m.grantor <> m.roleid), "
    "others AS (SELECT oid, nspowner FROM pg_namespace "
    "WHERE nspname IN (''"
#include "proto/services.def"
    ") AND nspname <> $1) "
    "SELECT r.rolname, CASE "
    "WHEN r.rolsuper OR r.rolcreaterole OR r.rolcreatedb OR r.rolreplication OR r.rolbypassrls "
    "THEN 'may do more than own a schema (superuser, roles, databases, replication)' "
    "WHEN n.oid IS NULL THEN 'finds no schema of the name' "
    "WHEN n.nspowner <> r.oid THEN 'does not own its schema' "
    "WHEN EXISTS (SELECT FROM pg_class WHERE relnamespace = n.oid AND relkind IN ('r', 'S') "
    "AND relowner <> r.oid) THEN 'does not own all of its schema' "
    "WHEN EXISTS (SELECT FROM others JOIN given ON role = nspowner) "
    "THEN 'is, or was made a member of, the role of another service' "
    "WHEN has_database_privilege(current_database(), 'CREATE') THEN 'may make schemas' END, "
    "(SELECT string_agg(pg_get_userbyid(nspowner), ', ') FROM others "
    "WHERE has_schema_privilege(oid, 'USAGE') OR has_schema_privilege(oid, 'CREATE') "
    "OR pg_has_role(nspowner, 'MEMBER')) "
    "FROM pg_roles r LEFT JOIN pg_namespace n ON n.nspname = $1 WHERE r.rolname = current_user";

/* Least privilege: a service whose database user can do more than it needs does not start, so that
 * a compromised service cannot harm the others. */
static int check_role(pg_t *pg)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char text[320];
    int r = pg_ready(pg);

    if (!r)
        r = pg_exec(pg, &res, role_sql, 1, pg_schema(pg));
    if (r)
        return r;
    if (PQgetisnull(res, 0, 1)) {
        if (!PQgetisnull(res, 0, 2))
            log_warn("%s let the database user %s into what is theirs: run "
                     "deploy/database.sql, which takes that back",
                     quote(PQgetvalue(res, 0, 2)).text, quote(PQgetvalue(res, 0, 0)).text);
        return 0;
    }
    snprintf(text, sizeof(text),
             "the database user %.63s of postern-%.63s %.100s: run deploy/database.sql, "
             "and give the service the role that it made",
             PQgetvalue(res, 0, 0), pg_schema(pg), PQgetvalue(res, 0, 1));
    return fault(-EPERM, text);
}

/* ---- names ---- */

void migration_sum(const migration_t *self, char out[MIGRATION_SUM_HEX + 1])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)self->sql, strlen(self->sql));
    sodium_bin2hex(out, MIGRATION_SUM_HEX + 1, hash, sizeof(hash));
}

migration_state_t migration_judge(const migration_t *list, const char *name, const char *sum)
{
    char own[MIGRATION_SUM_HEX + 1];

    while (list->name && strcmp(list->name, name))
        list++;
    if (!list->name)
        return MIGRATION_UNKNOWN;
    migration_sum(list, own);
    return *sum && strcmp(sum, own) ? MIGRATION_CHANGED : MIGRATION_APPLIED;
}

static int set_name(pg_t *pg, const migration_t *migration)
{
    char number[16], sum[MIGRATION_SUM_HEX + 1];

    snprintf(number, sizeof(number), "%d", migration->number);
    migration_sum(migration, sum);
    return pg_exec(pg, NULL, "UPDATE migration SET name = $2, checksum = $3 WHERE number = $1::int",
                   3, number, migration->name, sum);
}

static int refuse_unnamed(pg_t *pg)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char text[160];
    int r = pg_exec(pg, &res, "SELECT min(number) FROM migration WHERE name IS NULL", 0);

    if (r || PQgetisnull(res, 0, 0))
        return r;
    snprintf(text, sizeof(text),
             "migration %.10s of the schema %.63s is none of Postern's: no version had that number",
             PQgetvalue(res, 0, 0), pg_schema(pg));
    return fault(-EINVAL, text);
}

/* Upgrades the table migration from numbers (places in a list) to names. The numbers stay, so that
 * a copy of an older version, which knows only them, applies nothing again. */
static int give_names(pg_t *pg, const migration_t *list)
{
    int r = pg_script(pg, "ALTER TABLE migration ADD COLUMN name text, ADD COLUMN checksum text, "
                          "DROP CONSTRAINT migration_pkey; "
                          "ALTER TABLE migration ALTER COLUMN number DROP NOT NULL");

    for (; !r && list->name; list++)
        if (list->number)
            r = set_name(pg, list);
    if (!r)
        r = refuse_unnamed(pg);
    if (!r)
        r = pg_script(pg, "ALTER TABLE migration ALTER COLUMN name SET NOT NULL, "
                          "ADD CONSTRAINT migration_pkey PRIMARY KEY (name), "
                          "ADD CONSTRAINT migration_number_key UNIQUE (number)");
    return r;
}

/* A new schema starts with the oldest form of the table and is upgraded like an old one, so that
 * both end up with the same table. */
static int prepare_table(pg_t *pg, const migration_t *list)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r =
        pg_script(pg, "CREATE TABLE IF NOT EXISTS migration "
                      "(number int PRIMARY KEY, applied_at timestamptz NOT NULL DEFAULT now())");

    if (!r)
        r = pg_exec(pg, &res,
                    "SELECT FROM pg_attribute WHERE attrelid = 'migration'::regclass "
                    "AND attname = 'name' AND NOT attisdropped",
                    0);
    return r || PQntuples(res) ? r : give_names(pg, list);
}

/* ---- applying ---- */

/* Migrations applied by a newer version are accepted: during a rolling upgrade both versions run,
 * and an operator may have to go back. Therefore migrations only add, and remove only what the
 * previous version did not use. */
static int judge_row(const pg_t *pg, const migration_t *list, const char *name, const char *sum)
{
    char text[240];

    switch (migration_judge(list, name, sum)) {
    case MIGRATION_APPLIED:
        return 0;
    case MIGRATION_UNKNOWN:
        log_warn("the schema %s has had the migration %s, which this version does not know: "
                 "a newer one was here",
                 pg_schema(pg), quote(name).text);
        return 0;
    case MIGRATION_CHANGED:
        break;
    }
    snprintf(text, sizeof(text),
             "migration %s is not what the schema %.63s was made with: its file was changed",
             quote(name).text, pg_schema(pg));
    return fault(-EINVAL, text);
}

static int apply_migration(pg_t *pg, const migration_t *migration)
{
    char number[16], sum[MIGRATION_SUM_HEX + 1], why[200], text[400];
    int r = pg_script(pg, migration->sql);

    snprintf(number, sizeof(number), "%d", migration->number);
    migration_sum(migration, sum);
    if (!r)
        r = pg_exec(pg, NULL,
                    "INSERT INTO migration (number, name, checksum) "
                    "VALUES (nullif($1::int, 0), $2, $3)",
                    3, number, migration->name, sum);
    if (!r)
        return 0;
    snprintf(why, sizeof(why), "%s", fault_text());
    snprintf(text, sizeof(text), "migration %s of schema %s: %s", migration->name, pg_schema(pg),
             *why ? why : outcome_name(r));
    return fault(r, text);
}

static bool has_row(const PGresult *rows, const char *name)
{
    for (int i = 0; i < PQntuples(rows); i++)
        if (!strcmp(PQgetvalue(rows, i, 0), name))
            return true;
    return false;
}

static int migrate_locked(pg_t *pg, const migration_t *list)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r = prepare_table(pg, list);

    if (!r)
        r = pg_exec(pg, &rows, "SELECT name, coalesce(checksum, '') FROM migration ORDER BY name",
                    0);
    for (int i = 0; !r && i < PQntuples(rows); i++)
        r = judge_row(pg, list, PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1));
    for (; !r && list->name; list++)
        if (!has_row(rows, list->name))
            r = apply_migration(pg, list);
    return r;
}

/* One service migrates at a time. No statement_timeout, since building an index of a large table
 * takes long; but lock_timeout bounds waits for another migration or for a backup, which holds a
 * lock on every table. */
static int lock_migrations(pg_t *pg)
{
    char sql[160];

    snprintf(sql, sizeof(sql),
             "BEGIN; SET LOCAL lock_timeout = %d; SET LOCAL statement_timeout = 0; "
             "SELECT pg_advisory_xact_lock(7463001)",
             PG_STATEMENT_TIMEOUT_MS);
    return pg_script(pg, sql);
}

int migrate(pg_t *pg, const migration_t *list)
{
    int r = check_role(pg);

    if (!r)
        r = lock_migrations(pg);
    if (!r)
        r = migrate_locked(pg, list);
    if (!r)
        return pg_script(pg, "COMMIT");
    pg_rollback(pg);
    return r;
}
