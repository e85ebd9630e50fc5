/* Publication of what a version before did not publish. */
#include "services/routes/publish.h"
#include "common/base/cleanup.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

enum { PAGE = 512 /* entries that are published in one transaction */ };

/* Rows (kind, id, row as JSON, or null where there is none) to the config log. */
static int publish_rows(crud_t *crud, const PGresult *rows, publish_fn *publish)
{
    int r = 0;

    for (int i = 0; !r && i < PQntuples(rows); i++) {
        _cleanup_(json_clear_ref) json_t *document = NULL;
        _cleanup_(json_clear_ref) json_t *row = NULL;

        if (publish) {
            row = json_loads(PQgetvalue(rows, i, 2), 0, NULL);
            r = row ? publish(crud, row, &document) : -ENOMEM;
        }
        if (!r)
            r = crud_publish(crud, PQgetvalue(rows, i, 0), PQgetvalue(rows, i, 1), document);
    }
    return r;
}

/* One page of those that the statement finds, in a transaction of its own. */
static int publish_page(crud_t *crud, const char *what, const publish_pass_t *pass, int *ret_count,
                        int64_t *ret_revision)
{
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    char page[16];
    int r = crud_begin(crud);

    *ret_count = 0;
    snprintf(page, sizeof(page), "%d", PAGE);
    if (!r) /* of copies that start together, one after the other */
        r = pg_exec(crud->pg, NULL, "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", 1,
                    what);
    if (!r && pass->given)
        r = pg_exec(crud->pg, &rows, pass->sql, 2, pass->given, page);
    else if (!r)
        r = pg_exec(crud->pg, &rows, pass->sql, 1, page);
    if (!r)
        r = publish_rows(crud, rows, pass->publish);
    if (!r)
        *ret_count = PQntuples(rows);
    return crud_end(crud, r, ret_revision);
}

int publish_missing(crud_t *crud, const char *what, const publish_pass_t *passes, size_t n,
                    int *ret_count, int64_t *ret_revision)
{
    *ret_revision = 0;
    *ret_count = 0;
    for (size_t i = 0; i < n; i++) {
        int64_t revision = 0;
        int r, count;

        do {
            r = publish_page(crud, what, &passes[i], &count, &revision);
            *ret_count += count;
            if (revision)
                *ret_revision = revision;
        } while (!r && count == PAGE);
        if (r)
            return r;
    }
    return 0;
}
