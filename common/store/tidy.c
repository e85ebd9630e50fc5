#include "common/store/tidy.h"
#include "common/base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP_ROWS = 1000 };

/* Delete at most STEP_ROWS rows; bound: the statement's second parameter, NULL if it has none. */
static int delete_some(pg_t *pg, const char *sql, const char *bound, bool *ret_more)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char rows[16];
    int r;

    snprintf(rows, sizeof(rows), "%d", STEP_ROWS);
    r = pg_exec(pg, &res, sql, bound ? 2 : 1, rows, bound);
    if (!r && atoi(PQcmdTuples(res)) == STEP_ROWS)
        *ret_more = true;
    return r;
}

static int forget_requests(pg_t *pg, long seconds, bool *ret_more)
{
    char age[24];

    snprintf(age, sizeof(age), "%ld", seconds);
    return delete_some(pg,
                       "DELETE FROM request WHERE key IN (SELECT key FROM request "
                       "WHERE at < now() - $2::bigint * interval '1 second' "
                       "ORDER BY at LIMIT $1::int)",
                       age, ret_more);
}

/* Two transactions: the first raises config_head.forgotten and holds the head's lock only for that;
 * the second deletes, without the lock. Readers of entries read the head in the same statement, so
 * a reader that misses a deletion knows it. An entry that is written again meanwhile is no deletion
 * any more: it is skipped while it is locked, and looked at again later. */
static int forget_deletions(pg_t *pg, bool *ret_more)
{
    char kept[16];
    int r;

    snprintf(kept, sizeof(kept), "%d", TIDY_DELETIONS_KEPT);
    r = pg_exec(pg, NULL,
                "UPDATE config_head SET forgotten = last.revision FROM ("
                "SELECT revision FROM config_entry WHERE doc IS NULL "
                "ORDER BY revision DESC OFFSET $1::int LIMIT 1) last "
                "WHERE forgotten < last.revision",
                1, kept);
    if (r)
        return r;
    return delete_some(pg,
                       "DELETE FROM config_entry WHERE (kind, id) IN (SELECT kind, id "
                       "FROM config_entry WHERE doc IS NULL "
                       "AND revision <= (SELECT forgotten FROM config_head) "
                       "ORDER BY revision LIMIT $1::int FOR UPDATE SKIP LOCKED)",
                       NULL, ret_more);
}

static int forget_revisions(pg_t *pg, bool *ret_more)
{
    char kept[16];

    snprintf(kept, sizeof(kept), "%d", TIDY_REVISIONS_KEPT);
    return delete_some(pg,
                       "DELETE FROM config_revision WHERE revision IN (SELECT revision "
                       "FROM config_revision WHERE revision <= (SELECT revision "
                       "FROM config_revision ORDER BY revision DESC OFFSET $2::int LIMIT 1) "
                       "ORDER BY revision LIMIT $1::int)",
                       kept, ret_more);
}

int tidy_step(pg_t *pg, const tidy_args_t *args, bool *ret_more)
{
    int r;

    *ret_more = false;
    r = forget_requests(pg, args->idempotency_seconds, ret_more);
    if (!r && args->config_log)
        r = forget_deletions(pg, ret_more);
    if (!r && args->config_log)
        r = forget_revisions(pg, ret_more);
    for (const char *const *sql = args->statements; !r && sql && *sql; sql++)
        r = delete_some(pg, *sql, NULL, ret_more);
    return r;
}
