/* Lists: newest first, in pages, filtered. */
#include "common/base/cleanup.h"
#include "common/resource/crud_internal.h"
#include "common/resource/filter.h"
#include "common/base/id.h"
#include "common/codec/pack.h"
#include "common/base/quote.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    LIST_DEFAULT = 100,
    LIST_MAX = 100,
    QUERIES_MAX = 4,
    CONDITIONS_SIZE = 512,
    PAGE_BYTES =
        8 << 20 /* a page ends early when it gets larger: it must fit into a frame of the bus */
};

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
        return problem_add(problem, ERR_LIMIT_NOT_NUMBER, "limit", "%s is not a number",
                           quote(text).text);
    if (*ret_limit < 1 || *ret_limit > LIST_MAX)
        return problem_add(problem, ERR_LIMIT_OUT_OF_RANGE, "limit", "must be from 1 to %d",
                           LIST_MAX);
    return 0;
}

/* SQL conditions of a page beside account and start, and the parameters of the whole statement. */
typedef struct page {
    const char *params[4 + QUERIES_MAX + FILTER_PARAMS_MAX];
    int n;
    char sql[CONDITIONS_SIZE];
    char *owned[QUERIES_MAX];
    int owned_count;
} page_t;

static void page_done(page_t *self)
{
    while (self->owned_count > 0)
        free(self->owned[--self->owned_count]);
}

/* Add the conditions of query parameters that are QUERY fields. */
static int add_queries(page_t *self, const kind_t *kind, const json_t *query)
{
    size_t len = strlen(self->sql);

    for (const field_t *field = kind->type.fields; field->name; field++) {
        const json_t *values = json_object_get(query, field->name);

        if (!(field->flags & FIELD_QUERY) || !values || self->owned_count == QUERIES_MAX)
            continue;
        self->owned[self->owned_count] = json_dumps(values, JSON_COMPACT);
        if (!self->owned[self->owned_count])
            return -ENOMEM;
        self->params[self->n++] = self->owned[self->owned_count++];
        len += (size_t)snprintf(self->sql + len, sizeof(self->sql) - len,
                                " AND \"%s\" IN (SELECT jsonb_array_elements_text($%d::jsonb))",
                                field->name, self->n);
    }
    return 0;
}

/* One more row than the limit, to see whether there is a next page. */
static int select_page(crud_t *self, const kind_t *kind, const json_t *query, long limit,
                       problem_t *problem, PGresult **ret_rows)
{
    const char *before = crud_text(query, "before_id"), *source = crud_text(query, "filter");
    const char *within =
        crud_text(self->request->body, "within"); /* a column: check_owner checked it */
    char limit_text[24];
    _cleanup_(page_done) page_t page = {
        .params = {self->request->account, before ? before : AFTER_ALL, limit_text}, .n = 3};
    _cleanup_(filter_done) filter_t filter = {.count = 0};
    _cleanup_(free_mem) char *sql = NULL;
    char row[CRUD_SQL_MAX], shown[CRUD_SQL_MAX];
    int r;

    snprintf(limit_text, sizeof(limit_text), "%ld", limit + 1);
    if (within) {
        page.params[page.n++] = crud_text(self->request->body, within);
        snprintf(page.sql, sizeof(page.sql), " AND %s = $%d", within, page.n);
    }
    r = add_queries(&page, kind, query);
    if (!r && source && *source)
        r = filter_compile(&filter, kind, source, page.n + 1, problem);
    if (r)
        return r;
    for (int i = 0; i < filter.count; i++)
        page.params[page.n++] = filter.params[i];
    if (asprintf(&sql,
                 "SELECT %s FROM %s t WHERE account_id = $1 AND id < $2%s%s%s%s "
                 "ORDER BY id DESC LIMIT $3::int",
                 crud_row_sql(kind, row), kind->name, crud_shown_sql(kind, shown), page.sql,
                 *filter.sql ? " AND " : "", filter.sql)
        < 0)
        return -ENOMEM;
    if (!*filter.sql)
        return pg_exec_params(self->pg, ret_rows, sql, page.n, page.params);
    r = pg_exec_once(self->pg, ret_rows, sql, page.n, page.params);
    if (r == PG_TIMEOUT)
        return problem_add(problem, ERR_BAD_FILTER, "filter",
                           "takes longer than %d s on what there is: make it narrower",
                           PG_STATEMENT_TIMEOUT_MS / 1000);
    if (r == PG_IMPOSSIBLE) /* filter_compile should have refused it: blame the filter */
        return problem_add(problem, ERR_BAD_FILTER, "filter",
                           "at byte 0: asks for a value that cannot be computed");
    return r;
}

/* A list below another object (LIST_OF): that object must be there, and the field that refers
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
    if (!field || field->type != FIELD_REFERENCE || !id)
        return ERR_NOT_FOUND;
    r = pg_exec(self->pg, &res, "SELECT 1 FROM object WHERE id = $1 AND account_id = $2", 2, id,
                self->request->account);
    return r || PQntuples(res) ? r : ERR_NOT_FOUND;
}

/* The URL path of the list. */
static const char *list_path(const crud_t *self, const kind_t *kind)
{
    const char *path = crud_text(self->request->body, "path");

    return crud_text(self->request->body, "within") && path ? path : kind->path;
}

/* &name=value, percent-encoded (RFC 3986 2.1). */
static int add_parameter(char **uri, const char *name, const char *value)
{
    static const char plain[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t n = strlen(*uri), size = n + strlen(name) + 3 * strlen(value) + 3;
    char *grown = realloc(*uri, size);

    if (!grown)
        return -ENOMEM;
    *uri = grown;
    n += (size_t)snprintf(grown + n, size - n, "&%s=", name);
    for (; *value; value++)
        if (strchr(plain, *value))
            grown[n++] = *value;
        else
            n += (size_t)snprintf(grown + n, size - n, "%%%02X", (unsigned char)*value);
    grown[n] = '\0';
    return 0;
}

/* The absolute URL of the next page, with this page's query parameters. The caller frees it. */
static char *next_page(const crud_t *self, const kind_t *kind, const json_t *query, long limit,
                       const char *last)
{
    const char *filter = crud_text(query, "filter");
    _cleanup_(free_mem) char *uri = NULL;
    int r;

    if (asprintf(&uri, "%s%s?before_id=%s&limit=%ld", self->base_url, list_path(self, kind), last,
                 limit)
        < 0) {
        uri = NULL;
        return NULL;
    }
    r = filter && *filter ? add_parameter(&uri, "filter", filter) : 0;
    for (const field_t *field = kind->type.fields; field->name; field++) {
        json_t *value;
        size_t i;

        if (field->flags & FIELD_QUERY)
            json_array_foreach(json_object_get(query, field->name), i, value) r =
                r ? r : add_parameter(&uri, field->name, json_string_value(value));
    }
    return r ? NULL : take(uri);
}

static int put(msgpack_sbuffer *out, const char *text)
{
    return msgpack_sbuffer_write(out, text, strlen(text)) ? -ENOMEM : 0;
}

/* JSON of any value. */
static int put_json(msgpack_sbuffer *out, const json_t *value)
{
    _cleanup_(free_mem) char *text =
        value ? json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;

    return text ? put(out, text) : -ENOMEM;
}

static int put_string(msgpack_sbuffer *out, const char *text)
{
    _cleanup_(json_clear_ref) json_t *value = json_string(text);

    return put_json(out, value);
}

/* Render objects whose rows alone are not enough (see schema_text_is_whole), with their
 * children: count of them, from row first on. 0 | ERR_ANSWER_TOO_LARGE | fault. */
static int load_with_children(crud_t *self, const kind_t *kind, const PGresult *res, int first,
                              int count, json_t **ret_items)
{
    _cleanup_(json_clear_ref) json_t *items = json_array();
    int r = 0;

    for (int i = 0; !r && i < count; i++) {
        _cleanup_(json_clear_ref) json_t *row = NULL;

        r = crud_row_at(self, kind, res, first + i, &row);
        if (!r && json_array_append_new(items, schema_render(kind, row, self->base_url)))
            r = -ENOMEM;
    }
    if (!r)
        r = crud_add_children(self, kind, items);
    if (!r)
        *ret_items = take(items);
    return r;
}

/* Append one object with its children. */
static int put_with_children(crud_t *self, const kind_t *kind, const PGresult *res, int i,
                             msgpack_sbuffer *out)
{
    _cleanup_(json_clear_ref) json_t *items = NULL;
    int r = load_with_children(self, kind, res, i, 1, &items);

    return r ? r : put_json(out, json_array_get(items, 0));
}

/* Append the items. *shown: in, how many may be shown; out, how many fitted into the page, at least
 * one: otherwise a client that follows the pages would never end. */
static int put_items(crud_t *self, const kind_t *kind, const PGresult *res, int *shown,
                     msgpack_sbuffer *out)
{
    _cleanup_(json_clear_ref) json_t *items = NULL;
    bool whole = schema_text_is_whole(kind);
    int i = 0, r = 0;

    if (!whole)
        r = load_with_children(self, kind, res, 0, *shown, &items);
    if (r == ERR_ANSWER_TOO_LARGE)
        r = 0; /* fewer of them may fit: one after the other, as far as the page goes */
    while (!r && i < *shown) {
        size_t before = out->size;

        r = put(out, i ? "," : "[");
        if (!r)
            r = items   ? put_json(out, json_array_get(items, (size_t)i))
                : whole ? crud_text_at(self, kind, res, i, out)
                        : put_with_children(self, kind, res, i, out);
        if (!r && i && out->size > PAGE_BYTES) {
            out->size = before; /* the next page begins with it */
            break;
        }
        i++;
    }
    *shown = i;
    return r ? r : put(out, i ? "]" : "[]");
}

/* Append the URL of the next page; JSON null on the last page. */
static int put_next(crud_t *self, const kind_t *kind, const PGresult *res, int shown, long limit,
                    msgpack_sbuffer *out)
{
    _cleanup_(free_mem) char *next = NULL;
    char last[ID_MAX];

    if (shown == PQntuples(res))
        return put(out, "null");
    if (schema_text_member(PQgetvalue(res, shown - 1, 0), "id", last, sizeof(last)))
        return fault(-EIO, "stored row is not JSON");
    next = next_page(self, kind, json_object_get(self->request->body, "query"), limit, last);
    return next ? put_string(out, next) : -ENOMEM;
}

static int put_page(crud_t *self, const kind_t *kind, const PGresult *res, long limit,
                    msgpack_sbuffer *out)
{
    _cleanup_(free_mem) char *uri = NULL;
    int shown = PQntuples(res) > limit ? (int)limit : PQntuples(res);
    int r = pack_text_begin(out);

    if (asprintf(&uri, "%s%s", self->base_url, list_path(self, kind)) < 0) {
        uri = NULL;
        return -ENOMEM;
    }
    if (!r && (put(out, "{\"") || put(out, kind->list_key) || put(out, "\":")))
        r = -ENOMEM;
    if (!r)
        r = put_items(self, kind, res, &shown, out);
    if (!r && (put(out, ",\"uri\":") || put_string(out, uri) || put(out, ",\"next_page_uri\":")))
        r = -ENOMEM;
    if (!r)
        r = put_next(self, kind, res, shown, limit, out);
    if (!r)
        r = put(out, "}");
    if (!r)
        pack_text_end(out);
    return r;
}

/* Newest first by id, before_id exclusive: stable whatever is inserted or deleted meanwhile. */
int crud_list(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const json_t *query = json_object_get(self->request->body, "query");
    const char *before = crud_text(query, "before_id");
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    long limit;
    int r;

    r = list_limit(query, &reply->problem, &limit);
    if (r)
        return r;
    if (before && !id_check(kind->prefix, before))
        return problem_add(&reply->problem, ERR_REF_WRONG_PREFIX, "before_id",
                           "%s is not the id of %s %s", quote(before).text,
                           quote_article(kind->name), kind->name);
    r = check_owner(self, kind);
    if (r)
        return r;
    r = select_page(self, kind, query, limit, &reply->problem, &res);
    return r ? r : put_page(self, kind, res, limit, &reply->packed);
}
