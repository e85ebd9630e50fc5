#include "common/store/tidy.h"
#include "common/base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP_ROWS = 1000 };

/* bound NULL: there is none. */
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

/* First it is said, in a transaction of its own that holds the head's lock for no longer than it takes; then what was said is
 * done, without it. Whoever reads entries reads the head in the same statement, so where a deletion is missing it knows. An entry
 * that is written anew meanwhile is none of those: it is skipped, or looked at again when it can be locked. */
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
    return r;
}
