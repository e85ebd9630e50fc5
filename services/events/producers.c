#include "services/events/producers.h"
#include "common/base/cleanup.h"

#include <stdio.h>
#include <stdlib.h>

enum { STEP_ROWS = 1000 };

/* Rows that another transaction has locked are skipped: two transactions that wait for each other
 * would both fail. */

int producers_bound(pg_t *pg, const char *names)
{
    char max[16];

    snprintf(max, sizeof(max), "%d", PRODUCERS_OF_EDGE);
    return pg_exec(pg, NULL,
                   "SELECT count_together(ARRAY(SELECT name FROM producer WHERE name IN "
                   "(SELECT name FROM (SELECT name, row_number() OVER "
                   "(PARTITION BY producer_edge(name) ORDER BY at DESC, name) AS place "
                   "FROM producer WHERE producer_edge(name) IN "
                   "(SELECT producer_edge(x) FROM jsonb_array_elements_text($1::jsonb) x)) placed "
                   "WHERE place > $2::int) "
                   "AND name NOT IN (SELECT jsonb_array_elements_text($1::jsonb)) "
                   "FOR UPDATE SKIP LOCKED))",
                   2, names, max);
}

/* Merge a bounded number of rows; *ret_n: how many. */
static int forget_some(pg_t *pg, const char *days, int *ret_n)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char rows[16];
    int r;

    snprintf(rows, sizeof(rows), "%d", STEP_ROWS);
    r = pg_exec(pg, &res,
                "SELECT count_together(ARRAY(SELECT name FROM producer "
                "WHERE at < now() - $1::bigint * interval '1 day' "
                "AND EXISTS (SELECT 1 FROM producer later "
                "WHERE producer_worker(later.name) = producer_worker(producer.name) "
                "AND later.name COLLATE \"C\" > producer.name COLLATE \"C\" "
                "AND later.since < now() - $1::bigint * interval '1 day') "
                "ORDER BY at LIMIT $2::int FOR UPDATE SKIP LOCKED))",
                2, days, rows);
    *ret_n = r ? 0 : atoi(PQgetvalue(res, 0, 0));
    return r;
}

int producers_forget(pg_t *pg, long days, int64_t *deleted)
{
    char text[24];
    int r = 0, n = STEP_ROWS;

    snprintf(text, sizeof(text), "%ld", days);
    while (!r && n == STEP_ROWS) {
        r = forget_some(pg, text, &n);
        *deleted += n;
    }
    return r;
}
