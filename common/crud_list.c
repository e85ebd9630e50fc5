/* Lists: newest first, in pages, filtered. */
#include "common/cleanup.h"
#include "common/crud_internal.h"
#include "common/filter.h"
#include "common/id.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { LIST_DEFAULT = 100, LIST_MAX = 100 };

static const char AFTER_ALL[] = "~"; /* behind every id, in collation C */

static int list_limit(const json_t *query, problem_t *problem, long *ret_limit)
{
    const char *text = crud_text(query, "limit");
    char *end;

    *ret_limit = LIST_DEFAULT;
    if (!text)
        return 0;
    *ret_limit = strtol(text, &end, 10);
    if (!*text || *end || strlen(text) > 10)
        return problem_add(problem, ERR_LIMIT_NOT_NUMBER, "limit", "'%.20s' is not a number", text);
    if (*ret_limit < 1 || *ret_limit > LIST_MAX)
        return problem_add(problem, ERR_LIMIT_OUT_OF_RANGE, "limit", "must be from 1 to %d",
                           LIST_MAX);
    return 0;
}

/* One more row than the limit, to see whether there is a next page. */
static int select_page(crud_t *self, const kind_t *kind, const json_t *query, long limit,
                       problem_t *problem, PGresult **ret_rows)
{
    const char *before = crud_text(query, "before_id"), *source = crud_text(query, "filter");
    const char *within =
        crud_text(self->request->body, "within"); /* a column: check_owner checked it */
    const char *params[4 + FILTER_PARAMS_MAX] = {self->request->account,
                                                 before ? before : AFTER_ALL};
    int n = 3;
    _cleanup_(filter_done) filter_t filter = {.count = 0};
    _cleanup_(free_mem) char *sql = NULL;
    char limit_text[24];
    int r = 0;

    snprintf(limit_text, sizeof(limit_text), "%ld", limit + 1);
    params[2] = limit_text;
    if (within)
        params[n++] = crud_text(self->request->body, within);
    if (source && *source)
        r = filter_compile(&filter, kind, source, n + 1, problem);
    if (r)
        return r;
    for (int i = 0; i < filter.count; i++)
        params[n++] = filter.params[i];
    if (asprintf(&sql,
                 "SELECT to_jsonb(t) FROM %s t WHERE account_id = $1 AND id < $2%s%s%s%s%s "
                 "ORDER BY id DESC LIMIT $3::int",
                 kind->name, within ? " AND " : "", within ? within : "", within ? " = $4" : "",
                 *filter.sql ? " AND " : "", filter.sql)
        < 0)
        return -ENOMEM;
    if (!*filter.sql)
        return pg_exec_params(self->pg, ret_rows, sql, n, params);
    r = pg_exec_once(self->pg, ret_rows, sql, n, params);
    if (r == PG_TIMEOUT)
        return problem_add(problem, ERR_BAD_FILTER, "filter",
                           "takes longer than %d s on what there is: make it narrower",
                           PG_STATEMENT_TIMEOUT_MS / 1000);
    return r;
}

/* A list below another object (proto/lists.def): that object must be there, and the field that refers
 * to it must be one of the kind. */
static int check_owner(crud_t *self, const kind_t *kind)
{
    const char *within = crud_text(self->request->body, "within");
    const char *id = within ? crud_text(self->request->body, within) : NULL;
    const field_t *field = within ? field_find(&kind->type, within) : NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    if (!within)
        return 0;
    if (!field || field->type != REFERENCE || !id)
        return ERR_NOT_FOUND;
    r = pg_exec(self->pg, &res, "SELECT 1 FROM object WHERE id = $1 AND account_id = $2", 2, id,
                self->request->account);
    return r || PQntuples(res) ? r : ERR_NOT_FOUND;
}

/* Where the list is. */
static const char *list_path(const crud_t *self, const kind_t *kind)
{
    const char *path = crud_text(self->request->body, "path");

    return crud_text(self->request->body, "within") && path ? path : kind->path;
}

/* Absolute, with what the query said (RFC 3986 2.1). Caller frees. */
static char *next_page(const crud_t *self, const kind_t *kind, const json_t *query, long limit,
                       const json_t *last)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    const char *filter = crud_text(query, "filter");
    _cleanup_(free_mem) char *encoded = calloc(1, filter ? 3 * strlen(filter) + 1 : 1);
    char *uri = NULL;
    size_t n = 0;

    for (const char *at = filter; encoded && at && *at; at++)
        if (strchr(plain, *at))
            encoded[n++] = *at;
        else
            n += (size_t)snprintf(encoded + n, 4, "%%%02X", (unsigned char)*at);
    if (!encoded
        || asprintf(&uri, "%s%s?before_id=%s&limit=%ld%s%s", self->base_url, list_path(self, kind),
                    crud_text(last, "id"), limit, n ? "&filter=" : "", encoded)
               < 0)
        return NULL;
    return uri;
}

/* Newest first by id, before_id exclusive: stable whatever is inserted or deleted meanwhile. */
int crud_list(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const json_t *query = json_object_get(self->request->body, "query");
    const char *before = crud_text(query, "before_id");
    _cleanup_(json_clear_ref) json_t *items = json_array();
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *next = NULL;
    long limit;
    int r, n;

    r = list_limit(query, &reply->problem, &limit);
    if (r)
        return r;
    if (before && !id_check(kind->prefix, before))
        return problem_add(&reply->problem, ERR_REF_WRONG_PREFIX, "before_id",
                           "'%.64s' is not the id of a %s", before, kind->name);
    r = check_owner(self, kind);
    if (r)
        return r;
    r = select_page(self, kind, query, limit, &reply->problem, &res);
    if (r)
        return r;
    n = PQntuples(res);
    for (int i = 0; i < n && i < limit; i++) {
        _cleanup_(json_clear_ref) json_t *row = NULL;

        r = crud_row_at(self, kind, res, i, &row);
        if (r)
            return r;
        json_array_append_new(items, schema_render(kind, row, self->base_url));
        if (n > limit && i == limit - 1 && !(next = next_page(self, kind, query, limit, row)))
            return -ENOMEM;
    }
    r = crud_add_children(self, kind, items);
    if (r)
        return r;
    reply->body = json_pack("{s:O, s:s+, s:s?}", kind->list_key, items, "uri", self->base_url,
                            list_path(self, kind), "next_page_uri", next);
    return reply->body ? 0 : -ENOMEM;
}
