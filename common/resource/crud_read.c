/* Reading objects: their rows, with secrets decrypted, and their API representation. */
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/codec/pack.h"
#include "common/resource/change.h"
#include "common/resource/crud_internal.h"
#include "common/resource/kind_rules.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum {
    CHILDREN_PAGE = 64,            /* children that one query reads: each may have a megabyte */
    CHILDREN_BYTES = BUS_FRAME_MAX /* of the rows of all children: beyond it no answer has room */
};

int crud_row_at(const crud_t *self, const kind_t *kind, const PGresult *res, int i,
                json_t **ret_row)
{
    _cleanup_(json_clear_ref) json_t *row = json_loads(PQgetvalue(res, i, 0), 0, NULL);
    int r;

    if (!row)
        return fault(-EIO, "stored row is not JSON");
    r = schema_unseal(kind, row, self->key);
    if (r)
        return r;
    *ret_row = take(row);
    return 0;
}

int crud_text_at(const crud_t *self, const kind_t *kind, const PGresult *res, int i,
                 msgpack_sbuffer *out)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    char *text = NULL;
    int r;

    if (schema_has_secrets(kind)) {
        r = crud_row_at(self, kind, res, i, &row);
        if (r)
            return r;
        text = json_dumps(row, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text)
            return -ENOMEM;
    }
    r = schema_text(out, kind, text ? text : PQgetvalue(res, i, 0), self->base_url);
    if (text)
        secret_free(&text, strlen(text));
    return r == -EINVAL ? fault(-EIO, "stored row is not JSON") : r;
}

const char *crud_row_sql(const kind_t *kind, char out[CRUD_SQL_MAX])
{
    size_t n = (size_t)snprintf(out, CRUD_SQL_MAX, "to_jsonb(t)");

    for (const field_t *field = kind->type.fields; field->name; field++)
        if (field->flags & FIELD_DERIVED && n < CRUD_SQL_MAX)
            n += (size_t)snprintf(out + n, CRUD_SQL_MAX - n,
                                  " || jsonb_build_object('%s', %s_%s(t))", field->name, kind->name,
                                  field->name);
    INVARIANT(n < CRUD_SQL_MAX);
    return out;
}

const char *crud_shown_sql(const kind_t *kind, char out[CRUD_SQL_MAX])
{
    *out = '\0';
    for (const field_t *field = kind->type.fields; field->name; field++)
        if (field->flags & FIELD_ENDS)
            snprintf(out, CRUD_SQL_MAX, " AND t.%s > now()", field->name);
    return out;
}

/* What a row is selected for. */
typedef enum {
    ROW_SHOWN,
    ROW_LOCKED,
    ROW_DOOMED /* to be deleted: locked, and ended or not */
} row_t;

static int select_row(crud_t *self, const kind_t *kind, const char *account, const char *id,
                      row_t what, PGresult **ret_row)
{
    char row[CRUD_SQL_MAX], shown[CRUD_SQL_MAX], sql[2 * CRUD_SQL_MAX + 256];
    int r;

    snprintf(sql, sizeof(sql), "SELECT %s FROM %s t WHERE id = $1 AND account_id = $2%s%s",
             crud_row_sql(kind, row), kind->name,
             what == ROW_DOOMED ? "" : crud_shown_sql(kind, shown),
             what == ROW_SHOWN ? "" : " FOR UPDATE");
    r = pg_exec(self->pg, ret_row, sql, 2, id, account);
    return r || PQntuples(*ret_row) ? r : ERR_NOT_FOUND;
}

static int load_row(crud_t *self, const kind_t *kind, const char *account, const char *id,
                    row_t what, json_t **ret_row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = select_row(self, kind, account, id, what, &res);

    return r ? r : crud_row_at(self, kind, res, 0, ret_row);
}

int crud_load(crud_t *self, const kind_t *kind, const char *account, const char *id, bool lock,
              json_t **ret_row)
{
    return load_row(self, kind, account, id, lock ? ROW_LOCKED : ROW_SHOWN, ret_row);
}

int crud_load_last(crud_t *self, const kind_t *kind, const char *account, const char *id,
                   json_t **ret_row)
{
    return load_row(self, kind, account, id, ROW_DOOMED, ret_row);
}

/* Append the rendered children of one page to the owners in list that they belong to. */
static int append_children(crud_t *self, const field_t *field, const PGresult *res, json_t *list)
{
    const kind_t *child = kind_find(field->kinds);
    int r = 0;

    for (int n = 0; !r && n < PQntuples(res); n++) {
        _cleanup_(json_clear_ref) json_t *row = NULL;
        json_t *owner;
        size_t i;

        r = crud_row_at(self, child, res, n, &row);
        json_array_foreach(list, i, owner)
        {
            if (!r
                && json_equal(json_object_get(owner, "id"),
                              json_object_get(row, child->parent_key)))
                json_array_append_new(json_object_get(owner, field->name),
                                      schema_render(child, row, self->base_url));
        }
    }
    return r;
}

/* Fill one CHILDREN field. Pages bound what is in memory at once; *bytes is the text of all
 * children so far. */
static int fill_children(crud_t *self, const field_t *field, json_t *list, size_t *bytes)
{
    const kind_t *child = kind_find(field->kinds);
    _cleanup_(json_clear_ref) json_t *ids = json_array();
    _cleanup_(free_mem) char *ids_text = NULL;
    char sql[512], last[ID_MAX] = "";
    json_t *owner;
    size_t i;
    int count, r;

    json_array_foreach(list, i, owner)
    {
        json_array_append(ids, json_object_get(owner, "id"));
        json_object_set_new(owner, field->name, json_array());
    }
    ids_text = json_dumps(ids, JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(sql, sizeof(sql),
             "SELECT to_jsonb(t), id FROM %s t WHERE %s IN (SELECT jsonb_array_elements_text($1)) "
             "AND id > $2 ORDER BY id LIMIT %d",
             child->name, child->parent_key, CHILDREN_PAGE);
    do {
        _cleanup_(pgresult_clear) PGresult *res = NULL;

        r = pg_exec(self->pg, &res, sql, 2, ids_text, last);
        count = r ? 0 : PQntuples(res);
        for (int n = 0; n < count; n++)
            *bytes += (size_t)PQgetlength(res, n, 0);
        if (*bytes > CHILDREN_BYTES)
            return ERR_ANSWER_TOO_LARGE;
        if (!r && count)
            r = append_children(self, field, res, list);
        if (!r && count)
            snprintf(last, sizeof(last), "%s", PQgetvalue(res, count - 1, 1));
    } while (!r && count == CHILDREN_PAGE);
    return r;
}

/* Take away what fill_children has begun: a list of children is whole or null. */
static void drop_children(const kind_t *kind, json_t *list)
{
    json_t *owner;
    size_t i;

    json_array_foreach(list, i, owner)
    {
        for (const field_t *field = kind->type.fields; field->name; field++)
            if (field->type == FIELD_CHILDREN)
                json_object_set_new(owner, field->name, json_null());
    }
}

int crud_add_children(crud_t *self, const kind_t *kind, json_t *list)
{
    size_t bytes = 0;
    int r = 0;

    for (const field_t *field = kind->type.fields; !r && field->name; field++)
        if (field->type == FIELD_CHILDREN)
            r = fill_children(self, field, list, &bytes);
    if (r == ERR_ANSWER_TOO_LARGE)
        drop_children(kind, list);
    return r;
}

int crud_render_row(crud_t *self, const kind_t *kind, const json_t *row, json_t **ret_rendered)
{
    _cleanup_(json_clear_ref) json_t *list = json_array();
    json_t *rendered = schema_render(kind, row, self->base_url);
    int r;

    json_array_append(list, rendered);
    r = crud_add_children(self, kind, list);
    if (r && r != ERR_ANSWER_TOO_LARGE)
        json_decref(rendered);
    else
        *ret_rendered = rendered;
    return r;
}

/* The id of the object that the path names. 0 | ERR_ID_MALFORMED | ERR_NOT_FOUND | fault. */
static int addressed_id(crud_t *self, const kind_t *kind, char out[ID_MAX])
{
    const char *id = crud_text(self->request->body, "id");
    const kind_rules_t *rules = kind_rules_find(kind);

    if (!id)
        return ERR_ID_MALFORMED;
    if (!id_check(kind->prefix, id))
        return rules && rules->named ? rules->named(self, id, out) : ERR_ID_MALFORMED;
    snprintf(out, ID_MAX, "%s", id);
    return 0;
}

/* The parent in the path must be the object's. */
static int check_addressed_parent(const crud_t *self, const kind_t *kind, const char *actual)
{
    const char *parent = kind->parent_key ? crud_text(self->request->body, kind->parent_key) : NULL;

    return parent && strcmp(parent, actual) ? kind_wrong_parent(kind) : 0;
}

/* The row that the path names. */
static int load_addressed(crud_t *self, const kind_t *kind, row_t what, json_t **ret_row)
{
    const kind_rules_t *rules = kind_rules_find(kind);
    _cleanup_(json_clear_ref) json_t *row = NULL;
    char id[ID_MAX];
    int r = addressed_id(self, kind, id);

    if (!r && what == ROW_DOOMED && rules && rules->lock_first)
        r = rules->lock_first(self, id);
    if (!r)
        r = load_row(self, kind, self->request->account, id, what, &row);
    if (!r && kind->parent_key)
        r = check_addressed_parent(self, kind, crud_text(row, kind->parent_key));
    if (r)
        return r;
    *ret_row = take(row);
    return 0;
}

int crud_load_addressed(crud_t *self, const kind_t *kind, bool lock, json_t **ret_row)
{
    return load_addressed(self, kind, lock ? ROW_LOCKED : ROW_SHOWN, ret_row);
}

int crud_load_doomed(crud_t *self, const kind_t *kind, json_t **ret_row)
{
    return load_addressed(self, kind, ROW_DOOMED, ret_row);
}

/* Answer with JSON text made straight from the row: no process parses it again on the way. */
static int get_text(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    msgpack_sbuffer *out = &reply->packed;
    char parent[ID_MAX] = "", id[ID_MAX];
    size_t start;
    int r = addressed_id(self, kind, id);

    if (!r)
        r = select_row(self, kind, self->request->account, id, ROW_SHOWN, &res);
    if (!r && kind->parent_key) {
        r = schema_text_member(PQgetvalue(res, 0, 0), kind->parent_key, parent, sizeof(parent));
        if (!r)
            r = check_addressed_parent(self, kind, parent);
    }
    if (r || (r = pack_text_begin(out)))
        return r;
    start = out->size;
    r = crud_text_at(self, kind, res, 0, out);
    if (r)
        return r;
    pack_text_end(out);
    rendered = json_loadb(out->data + start, out->size - start, JSON_ALLOW_NUL, NULL);
    if (rendered)
        change_etag(rendered, reply->etag);
    return rendered ? 0 : -ENOMEM;
}

int crud_get(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r;

    if (schema_text_is_whole(kind))
        return get_text(self, kind, reply);
    r = crud_load_addressed(self, kind, false, &row);
    if (!r)
        r = crud_render_row(self, kind, row, &reply->body);
    if (!r)
        change_etag(reply->body, reply->etag);
    return r;
}
