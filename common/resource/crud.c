#include "common/resource/crud.h"
#include "common/base/cleanup.h"
#include "common/resource/crud_internal.h"
#include "common/base/id.h"
#include "common/codec/pack.h"
#include "common/base/quote.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { SQL_MAX = 8192 };

/* Of KIND_RULES; the linker gives a section's bounds these names, and where there is no such
 * section they are NULL. */
extern const kind_rules_t *const __start_kind_rules[] __attribute__((weak));
extern const kind_rules_t *const __stop_kind_rules[] __attribute__((weak));

static const kind_rules_t *rules_of(const kind_t *kind)
{
    for (const kind_rules_t *const *row = __start_kind_rules; row < __stop_kind_rules; row++)
        if (!strcmp((*row)->kind, kind->name))
            return *row;
    return NULL;
}

static char *dump(const json_t *value)
{
    return json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
}

void crud_now(char out[32])
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* ---- reading ---- */

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
        text = dump(row);
        if (!text)
            return -ENOMEM;
    }
    r = schema_text(out, kind, text ? text : PQgetvalue(res, i, 0), self->base_url);
    if (text)
        secret_free(&text, strlen(text));
    return r == -EINVAL ? fault(-EIO, "stored row is not JSON") : r;
}

static int select_row(crud_t *self, const kind_t *kind, const char *account, const char *id,
                      bool lock, PGresult **ret_row)
{
    char sql[256];
    int r;

    snprintf(sql, sizeof(sql), "SELECT to_jsonb(t) FROM %s t WHERE id = $1 AND account_id = $2%s",
             kind->name, lock ? " FOR UPDATE" : "");
    r = pg_exec(self->pg, ret_row, sql, 2, id, account);
    return r || PQntuples(*ret_row) ? r : ERR_NOT_FOUND;
}

int crud_load(crud_t *self, const kind_t *kind, const char *account, const char *id, bool lock,
              json_t **ret_row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r = select_row(self, kind, account, id, lock, &res);

    return r ? r : crud_row_at(self, kind, res, 0, ret_row);
}

/* Fill the CHILDREN fields of rendered objects: one query for all of them. */
int crud_add_children(crud_t *self, const kind_t *kind, json_t *list)
{
    for (const field_t *field = kind->type.fields; field->name; field++) {
        _cleanup_(pgresult_clear) PGresult *res = NULL;
        _cleanup_(json_clear_ref) json_t *ids = json_array();
        _cleanup_(free_mem) char *ids_text = NULL;
        const kind_t *child;
        json_t *owner;
        char sql[512];
        size_t i;
        int r;

        if (field->type != FIELD_CHILDREN)
            continue;
        child = kind_find(field->kinds);
        json_array_foreach(list, i, owner)
        {
            json_array_append(ids, json_object_get(owner, "id"));
            json_object_set_new(owner, field->name, json_array());
        }
        ids_text = dump(ids);
        snprintf(sql, sizeof(sql),
                 "SELECT to_jsonb(t) FROM %s t WHERE %s IN (SELECT jsonb_array_elements_text($1)) "
                 "ORDER BY id",
                 child->name, child->parent_key);
        r = pg_exec(self->pg, &res, sql, 1, ids_text);
        for (int n = 0; !r && n < PQntuples(res); n++) {
            _cleanup_(json_clear_ref) json_t *row = NULL;

            r = crud_row_at(self, child, res, n, &row);
            json_array_foreach(list, i,
                               owner) if (!r
                                          && json_equal(json_object_get(owner, "id"),
                                                        json_object_get(row, child->parent_key)))
                json_array_append_new(json_object_get(owner, field->name),
                                      schema_render(child, row, self->base_url));
        }
        if (r)
            return r;
    }
    return 0;
}

int crud_render_row(crud_t *self, const kind_t *kind, const json_t *row, json_t **ret_rendered)
{
    _cleanup_(json_clear_ref) json_t *list = json_array();
    json_t *rendered = schema_render(kind, row, self->base_url);
    int r;

    json_array_append(list, rendered);
    r = crud_add_children(self, kind, list);
    if (r)
        json_decref(rendered);
    else
        *ret_rendered = rendered;
    return r;
}

static int check_addressed_id(const crud_t *self, const kind_t *kind)
{
    const char *id = crud_text(self->request->body, "id");

    return id && id_check(kind->prefix, id) ? 0 : ERR_ID_MALFORMED;
}

/* The parent in the path must be the object's. */
static int check_addressed_parent(const crud_t *self, const kind_t *kind, const char *actual)
{
    const char *parent = kind->parent_key ? crud_text(self->request->body, kind->parent_key) : NULL;

    return parent && strcmp(parent, actual) ? ERR_ROUTE_EDGE_MISMATCH : 0;
}

/* The row that the path names. */
int crud_load_addressed(crud_t *self, const kind_t *kind, bool lock, json_t **ret_row)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r = check_addressed_id(self, kind);

    if (!r)
        r = crud_load(self, kind, self->request->account, crud_text(self->request->body, "id"),
                      lock, &row);
    if (!r && kind->parent_key)
        r = check_addressed_parent(self, kind, crud_text(row, kind->parent_key));
    if (r)
        return r;
    *ret_row = take(row);
    return 0;
}

/* ---- preconditions ---- */

/* A strong validator: objects are rendered from their rows, by the tables, so the same values
 * come of the same row whoever answers. */
void crud_set_etag(const json_t *rendered, char out[40])
{
    unsigned char hash[crypto_hash_sha256_BYTES];
    msgpack_sbuffer packed;
    char hex[33];

    msgpack_sbuffer_init(&packed);
    if (!pack_json(&packed, rendered)) {
        crypto_hash_sha256(hash, (const unsigned char *)packed.data, packed.size);
        sodium_bin2hex(hex, sizeof(hex), hash, 16);
        snprintf(out, 40, "\"%s\"", hex);
    }
    msgpack_sbuffer_destroy(&packed);
}

/* If-Match (RFC 9110 13.1.1) against what is there now; NULL: nothing is. */
int crud_check_precondition(crud_t *self, const json_t *rendered, problem_t *problem)
{
    const char *wanted = crud_text(self->request->body, "if_match"), *at = wanted;
    char etag[40] = "";

    if (!wanted)
        return 0;
    if (rendered)
        crud_set_etag(rendered, etag);
    while (rendered && *at) {
        size_t len;

        at += strspn(at, ", \t");
        len = strcspn(at, ", \t");
        if ((len == 1 && *at == '*') || (len == strlen(etag) && !strncmp(at, etag, len)))
            return 0;
        at += len;
    }
    return problem_add(problem, ERR_PRECONDITION_FAILED, NULL, "the object has changed since");
}

/* The same for a whole object, which is rendered only when somebody asks. */
static int check_row_precondition(crud_t *self, const kind_t *kind, const json_t *row,
                                  problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    int r;

    if (!crud_text(self->request->body, "if_match"))
        return 0;
    r = crud_render_row(self, kind, row, &rendered);
    return r ? r : crud_check_precondition(self, rendered, problem);
}

/* As text, which nobody takes apart on its way to the client. */
static int get_text(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    msgpack_sbuffer *out = &reply->packed;
    char parent[ID_MAX] = "";
    size_t start;
    int r = check_addressed_id(self, kind);

    if (!r)
        r = select_row(self, kind, self->request->account, crud_text(self->request->body, "id"),
                       false, &res);
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
        crud_set_etag(rendered, reply->etag);
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
        crud_set_etag(reply->body, reply->etag);
    return r;
}

/* ---- writing ---- */

static int publish_row(crud_t *self, const kind_t *kind, const json_t *row)
{
    const kind_rules_t *rules = rules_of(kind);
    _cleanup_(json_clear_ref) json_t *document = NULL;
    int r;

    if (!rules || !rules->publish)
        return 0;
    r = rules->publish(self, row, &document);
    if (r || !document)
        return r;
    return crud_publish(self, kind->name, crud_text(row, "id"), document);
}

static int add_audit(crud_t *self, const kind_t *kind, const char *action, const json_t *rendered)
{
    _cleanup_(json_clear_ref) json_t *object = json_deep_copy(rendered);
    _cleanup_(json_clear_ref) json_t *event = NULL;
    _cleanup_(free_mem) char *text = NULL;
    char id[ID_MAX], type[96], at[32], channel[96];

    schema_mask(kind, object);
    id_make("ev", id);
    snprintf(type, sizeof(type), "%s_%s.v0", kind->audit, action);
    crud_now(at);
    event = json_pack("{s:s, s:s, s:s, s:s, s:O?, s:O}", "event_id", id, "event_type", type,
                      "event_timestamp", at, "account_id", self->request->account, "principal",
                      self->request->actor, "object", object);
    text = event ? dump(event) : NULL;
    if (!text)
        return -ENOMEM;
    snprintf(channel, sizeof(channel), "%s_outbox", self->service);
    return pg_defer(self->pg,
                    "WITH added AS (INSERT INTO outbox (event) VALUES ($1::jsonb) RETURNING 1) "
                    "SELECT pg_notify($2, '') FROM added",
                    2, text, channel);
}

/* What a broken unique constraint means. */
static int duplicate_answer(const crud_t *self, problem_t *problem)
{
    const char *name = pg_constraint(self->pg);
    const kind_unique_t *row = kind_unique(name);

    if (!strcmp(name, CRUD_CLAIMED))
        return PG_DUPLICATE; /* not the object: the request has been done before */
    return row ? problem_add(problem, row->outcome, row->field, "%s", row->text)
               : fault(-EIO, name);
}

/* All references must be objects of this account; FOR KEY SHARE keeps them until we commit. */
static int check_references(crud_t *self, const json_t *references, problem_t *problem)
{
    json_t *pair;
    size_t i;
    int r;

    json_array_foreach(references, i, pair)
    {
        const char *path = json_string_value(json_array_get(pair, 0));
        const char *id = json_string_value(json_array_get(pair, 1));
        _cleanup_(pgresult_clear) PGresult *res = NULL;

        r = pg_exec(self->pg, &res,
                    "SELECT 1 FROM object WHERE id = $1 AND account_id = $2 FOR KEY SHARE", 2, id,
                    self->request->account);
        if (r)
            return r;
        if (PQntuples(res) == 0)
            problem_add(problem, ERR_REF_NONEXISTENT, path, "%s does not exist", quote(id).text);
    }
    return problem->code;
}

static int write_references(crud_t *self, const char *id, const json_t *references)
{
    _cleanup_(free_mem) char *text = dump(references);

    return !json_array_size(references)
               ? 0
               : pg_defer(self->pg,
                          "INSERT INTO ref (from_id, path, to_id) SELECT $1, e->>0, e->>1 "
                          "FROM jsonb_array_elements($2::jsonb) e ON CONFLICT DO NOTHING",
                          2, id, text);
}

/* The kind's rules and references of a complete document. */
static int apply_rules(crud_t *self, const kind_t *kind, json_t *document, const json_t *old,
                       problem_t *problem, json_t **ret_references)
{
    _cleanup_(json_clear_ref) json_t *references = schema_references(kind, document);
    const kind_rules_t *rules = rules_of(kind);
    int r = 0;

    if (rules && rules->check)
        r = rules->check(self, document, old, references, problem);
    if (r == PG_DUPLICATE)
        return duplicate_answer(self, problem);
    if (r < 0)
        return r;
    r = check_references(self, references, problem);
    if (r)
        return r;
    *ret_references = take(references);
    return 0;
}

static int finish_created(crud_t *self, const kind_t *kind, const json_t *row, reply_t *reply)
{
    const kind_rules_t *rules = rules_of(kind);
    int r;

    r = crud_render_row(self, kind, row, &reply->body);
    if (!r)
        crud_set_etag(reply->body, reply->etag);
    if (!r && rules && rules->created)
        r = rules->created(self, row, reply->body);
    return r;
}

static int insert_row(crud_t *self, const kind_t *kind, json_t *document, problem_t *problem,
                      json_t **ret_row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *text = NULL;
    const field_t *owner = kind_owner(kind);
    const char *parent = kind->parent_key ? crud_text(document, kind->parent_key)
                         : owner          ? crud_text(document, field_key(owner))
                                          : NULL;
    const char *id = crud_text(document, "id");
    char limit[24], sql[768];
    int r;

    r = schema_seal(kind, document, self->key);
    if (r)
        return r;
    text = dump(document);
    snprintf(limit, sizeof(limit), "%ld", self->object_limit ? self->object_limit : LONG_MAX);
    snprintf(sql, sizeof(sql),
             "WITH counted AS (INSERT INTO object (id, account_id, kind, parent_id) "
             "SELECT $1, $2, $3, $4 WHERE (SELECT coalesce(sum(n), 0) FROM object_count "
             "WHERE account_id = $2 AND kind = $3) < $5::bigint RETURNING 1) "
             "INSERT INTO %s AS t SELECT r.* FROM counted, jsonb_populate_record(NULL::%s, "
             "$6::jsonb) r RETURNING to_jsonb(t)",
             kind->name, kind->name);
    r = pg_exec(self->pg, &res, sql, 6, id, self->request->account, kind->name, parent, limit,
                text);
    if (!r && PQntuples(res) == 0)
        return problem_add(problem, ERR_LIMIT_EXCEEDED, NULL,
                           "the limit is %s objects of kind %s in an account, and it is reached",
                           limit, kind->name);
    if (r == PG_REFERENCED && !strcmp(pg_constraint(self->pg), "object_parent_id_fkey"))
        return ERR_NOT_FOUND; /* the parent went away meanwhile */
    return r ? r : crud_row_at(self, kind, res, 0, ret_row);
}

/* What the object belongs to must be there, and stays until we commit. */
static int check_owner(crud_t *self, const kind_t *kind, const json_t *document, problem_t *problem)
{
    const field_t *owner = kind_owner(kind);
    _cleanup_(json_clear_ref) json_t *references =
        owner ? json_pack("[[s, O]]", field_key(owner), json_object_get(document, field_key(owner)))
              : NULL;

    return owner ? check_references(self, references, problem) : 0;
}

/* The first answer once more. */
int crud_redo_create(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r = crud_load(self, kind, self->request->account, self->object, false, &row);

    return r ? r : finish_created(self, kind, row, reply);
}

static int create_in_transaction(crud_t *self, const kind_t *kind, json_t *document, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *references = NULL;
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *audit = NULL;
    char at[32];
    int r;

    if (kind->parent_key) {
        const char *parent = crud_text(self->request->body, kind->parent_key);
        _cleanup_(pgresult_clear) PGresult *res = NULL;

        r = pg_exec(self->pg, &res,
                    "SELECT 1 FROM object WHERE id = $1 AND account_id = $2 FOR KEY SHARE", 2,
                    parent ? parent : "", self->request->account);
        if (r)
            return r;
        if (PQntuples(res) == 0)
            return ERR_NOT_FOUND;
        json_object_set_new(document, kind->parent_key, json_string(parent));
    }
    json_object_set_new(document, "id", json_string(self->object));
    json_object_set_new(document, "account_id", json_string(self->request->account));
    crud_now(at);
    json_object_set_new(document, "created_at", json_string(at));
    r = check_owner(self, kind, document, &reply->problem);
    if (!r)
        r = apply_rules(self, kind, document, NULL, &reply->problem, &references);
    if (r)
        return r;
    r = insert_row(self, kind, document, &reply->problem, &row);
    if (r == PG_DUPLICATE)
        return duplicate_answer(self, &reply->problem);
    if (!r)
        r = write_references(self, self->object, references);
    if (!r)
        r = crud_render_row(self, kind, row, &audit);
    if (!r)
        r = add_audit(self, kind, "created", audit);
    if (!r)
        r = publish_row(self, kind, row);
    if (!r)
        r = finish_created(self, kind, row, reply);
    return r;
}

int crud_create(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    int r;

    r = schema_check(kind, OPERATION_CREATE, NULL, json_object_get(self->request->body, "document"),
                     &reply->problem, &document);
    return r ? r : create_in_transaction(self, kind, document, reply);
}

/* UPDATE t SET (a, b) = (SELECT a, b FROM jsonb_populate_record(t, patch)): absent keys keep. */
static int update_row(crud_t *self, const kind_t *kind, json_t *document, json_t **ret_row)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *text = NULL;
    char columns[SQL_MAX / 4] = "", sql[SQL_MAX];
    const char *key, *id;
    json_t *value;
    int r;

    r = schema_seal(kind, document, self->key);
    if (r)
        return r;
    json_object_foreach(document, key, value)
    {
        size_t n = strlen(columns);

        (void)value;
        snprintf(columns + n, sizeof(columns) - n, "%s\"%s\"", n ? ", " : "", key);
    }
    id = crud_text(document, "id");
    text = dump(document);
    snprintf(sql, sizeof(sql),
             "UPDATE %s AS t SET (%s) = (SELECT %s FROM jsonb_populate_record(t, $1::jsonb)) "
             "WHERE id = $2 RETURNING to_jsonb(t)",
             kind->name, columns, columns);
    r = pg_exec(self->pg, &res, sql, 2, text, id);
    return r ? r : crud_row_at(self, kind, res, 0, ret_row);
}

/* Apply the patch to a row that is locked: rules, references, audit event, what edges get. */
int crud_change_row(crud_t *self, const kind_t *kind, const json_t *old, json_t *patch,
                    reply_t *reply, json_t **ret_rendered)
{
    _cleanup_(json_clear_ref) json_t *document = json_deep_copy(old);
    _cleanup_(json_clear_ref) json_t *references = NULL;
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r;

    json_object_update(document, patch);
    r = apply_rules(self, kind, document, old, &reply->problem, &references);
    if (!r)
        r = update_row(self, kind, document, &row);
    if (r == PG_DUPLICATE)
        return duplicate_answer(self, &reply->problem);
    if (!r)
        r = pg_defer(self->pg, "DELETE FROM ref WHERE from_id = $1", 1, crud_text(row, "id"));
    if (!r)
        r = write_references(self, crud_text(row, "id"), references);
    if (!r)
        r = crud_render_row(self, kind, row, ret_rendered);
    if (!r)
        r = add_audit(self, kind, "updated", *ret_rendered);
    if (!r)
        r = publish_row(self, kind, row);
    return r;
}

int crud_update(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *patch = NULL;
    _cleanup_(json_clear_ref) json_t *old = NULL;
    int r;

    r = crud_load_addressed(self, kind, true, &old);
    if (!r)
        r = check_row_precondition(self, kind, old, &reply->problem);
    if (r)
        return r;
    r = schema_check(kind, OPERATION_UPDATE, old, json_object_get(self->request->body, "document"),
                     &reply->problem, &patch);
    if (r)
        return r;
    if (kind->operations & KIND_NO_EMPTY_UPDATE && json_object_size(patch) == 0)
        return problem_add(&reply->problem, ERR_EMPTY_UPDATE, NULL, "the update sets no field");
    r = crud_change_row(self, kind, old, patch, reply, &reply->body);
    if (!r)
        crud_set_etag(reply->body, reply->etag);
    return r;
}

/* Audit and unpublish one row, its children first. */
static int retire_row(crud_t *self, const kind_t *kind, const json_t *row)
{
    const kind_rules_t *rules = rules_of(kind);
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(self->pg, &res, "SELECT id, kind FROM object WHERE parent_id = $1 ORDER BY id", 1,
                crud_text(row, "id"));
    for (int i = 0; !r && i < PQntuples(res); i++) {
        const kind_t *child = kind_find(PQgetvalue(res, i, 1));
        _cleanup_(json_clear_ref) json_t *child_row = NULL;

        r = crud_load(self, child, self->request->account, PQgetvalue(res, i, 0), true, &child_row);
        if (!r)
            r = retire_row(self, child, child_row);
    }
    if (!r)
        r = crud_render_row(self, kind, row, &rendered);
    if (!r)
        r = add_audit(self, kind, "deleted", rendered);
    if (!r && rules && rules->publish && !rules->retire)
        r = crud_publish(self, kind->name, crud_text(row, "id"), NULL);
    return r;
}

int crud_delete(crud_t *self, const kind_t *kind, reply_t *reply)
{
    const kind_rules_t *rules = rules_of(kind);
    _cleanup_(json_clear_ref) json_t *row = NULL;
    int r;

    r = crud_load_addressed(self, kind, true, &row);
    if (!r)
        r = check_row_precondition(self, kind, row, &reply->problem);
    if (!r && rules && rules->retire)
        r = rules->retire(self, row, &reply->problem);
    if (!r)
        r = retire_row(self, kind, row);
    if (r)
        return r;
    r = pg_exec(self->pg, NULL, "DELETE FROM object WHERE id = $1", 1, crud_text(row, "id"));
    if (r == PG_REFERENCED)
        return problem_add(&reply->problem, ERR_IN_USE, NULL,
                           "%s is used by another object: change or delete that one first",
                           crud_text(row, "id"));
    return r;
}

int crud_command(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    const kind_rules_t *rules = rules_of(kind);
    const char *name = crud_text(self->request->body, "module");
    int r;

    if (!name || !kind_command(kind, name) || !rules || !rules->command)
        return ERR_UNKNOWN_VERB;
    r = crud_load_addressed(self, kind, false, &row);
    return r ? r : rules->command(self, row, name, &reply->problem);
}
