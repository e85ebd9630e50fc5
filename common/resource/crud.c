/* Changes of objects: create, update, delete and commands, each with the rules of the kind, its
 * references, its audit event and its config log entries. Parts that need no database are in
 * change.c. */
#include "common/resource/crud.h"
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/base/quote.h"
#include "common/resource/change.h"
#include "common/resource/crud_internal.h"
#include "common/resource/kind_rules.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum {
    SQL_MAX = 8192,
    AUDIT_MAX =
        1 << 20 /* bytes of an event with the object's children: each has events of its own */
};

void crud_now(char out[32])
{
    time_t now = time(NULL);
    struct tm utc;

    gmtime_r(&now, &utc);
    strftime(out, 32, "%Y-%m-%dT%H:%M:%SZ", &utc);
}

/* The object is rendered for that only if the request has a precondition. */
int crud_check_row(crud_t *self, const kind_t *kind, const json_t *row, problem_t *problem)
{
    _cleanup_(json_clear_ref) json_t *rendered = NULL;
    int r;

    if (!crud_text(self->request->body, "if_match"))
        return 0;
    r = crud_render_row(self, kind, row, &rendered);
    if (r == ERR_ANSWER_TOO_LARGE)
        return problem_add(problem, ERR_PRECONDITION_FAILED, NULL,
                           "If-Match cannot be compared with an object whose representation is "
                           "larger than 16 MiB");
    return r ? r
             : change_check_precondition(crud_text(self->request->body, "if_match"), rendered,
                                         problem);
}

static int publish_row(crud_t *self, const kind_t *kind, const json_t *row)
{
    const kind_rules_t *rules = kind_rules_find(kind);
    _cleanup_(json_clear_ref) json_t *document = NULL;
    int r;

    if (!rules || !rules->publish)
        return 0;
    r = rules->publish(self, row, &document);
    if (r || !document)
        return r;
    return crud_publish(self, kind->name, crud_text(row, "id"), document);
}

int crud_add_audit(crud_t *self, const kind_t *kind, const char *action, const json_t *rendered)
{
    _cleanup_(json_clear_ref) json_t *event = NULL;
    _cleanup_(free_mem) char *text = NULL;
    char id[ID_MAX], at[32], channel[96];

    id_make("ev", id);
    crud_now(at);
    event = change_event(kind, action, id, at, self->request, rendered);
    text = event ? json_dumps(event, JSON_COMPACT | JSON_ENCODE_ANY) : NULL;
    if (text && strlen(text) > AUDIT_MAX && change_leave_out_children(kind, event)) {
        free(text);
        text = json_dumps(event, JSON_COMPACT | JSON_ENCODE_ANY);
    }
    if (!text)
        return -ENOMEM;
    snprintf(channel, sizeof(channel), "%s_outbox", self->service);
    return pg_defer(self->pg,
                    "WITH added AS (INSERT INTO outbox (event) VALUES ($1::jsonb) RETURNING 1) "
                    "SELECT pg_notify($2, '') FROM added",
                    2, text, channel);
}

/* The answer for a violated unique constraint. */
static int duplicate_answer(const crud_t *self, problem_t *problem)
{
    const char *name = pg_constraint(self->pg);

    if (!strcmp(name, CRUD_CLAIMED))
        return PG_DUPLICATE; /* the constraint of the idempotency record: done before */
    return change_conflict(name, problem);
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
    _cleanup_(free_mem) char *text = json_dumps(references, JSON_COMPACT | JSON_ENCODE_ANY);

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
    const kind_rules_t *rules = kind_rules_find(kind);
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

/* Render a row after its change. *ret_whole false: its children are too large to be shown, and
 * it is without them. */
int crud_render_changed(crud_t *self, const kind_t *kind, const json_t *row, json_t **ret_rendered,
                        bool *ret_whole)
{
    int r = crud_render_row(self, kind, row, ret_rendered);

    *ret_whole = r != ERR_ANSWER_TOO_LARGE;
    return *ret_whole ? r : 0;
}

static int finish_created(crud_t *self, const kind_t *kind, const json_t *row, reply_t *reply)
{
    const kind_rules_t *rules = kind_rules_find(kind);
    int r;

    r = crud_render_row(self, kind, row, &reply->body);
    if (!r)
        change_etag(reply->body, reply->etag);
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
    text = json_dumps(document, JSON_COMPACT | JSON_ENCODE_ANY);
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

/* The object's owner must exist; it is locked until we commit. */
static int check_owner(crud_t *self, const kind_t *kind, const json_t *document, problem_t *problem)
{
    const field_t *owner = kind_owner(kind);
    _cleanup_(json_clear_ref) json_t *references =
        owner ? json_pack("[[s, O]]", field_key(owner), json_object_get(document, field_key(owner)))
              : NULL;

    return owner ? check_references(self, references, problem) : 0;
}

/* Answer a repeated creation with the object that the first one made. */
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
                    "SELECT 1 FROM object WHERE id = $1 AND account_id = $2 AND kind = $3 "
                    "FOR KEY SHARE",
                    3, parent ? parent : "", self->request->account, kind_parent(kind)->name);
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
        r = crud_add_audit(self, kind, "created", audit);
    if (!r)
        r = publish_row(self, kind, row);
    if (!r)
        r = finish_created(self, kind, row, reply);
    return r;
}

int crud_add(crud_t *self, const kind_t *kind, json_t *document, problem_t *problem,
             json_t **ret_row)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    _cleanup_(json_clear_ref) json_t *audit = NULL;
    char id[ID_MAX], at[32];
    int r;

    if (!crud_text(document, "id")) {
        id_make(kind->prefix, id);
        json_object_set_new(document, "id", json_string(id));
    }
    crud_now(at);
    json_object_set_new(document, "account_id", json_string(self->request->account));
    json_object_set_new(document, "created_at", json_string(at));
    r = insert_row(self, kind, document, problem, &row);
    if (!r)
        r = crud_render_row(self, kind, row, &audit);
    if (!r)
        r = crud_add_audit(self, kind, "created", audit);
    if (!r)
        *ret_row = take(row);
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

/* UPDATE t SET (a, b) = (SELECT a, b FROM jsonb_populate_record(t, patch)): columns that are absent
 * in the patch keep their values. */
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
    text = json_dumps(document, JSON_COMPACT | JSON_ENCODE_ANY);
    snprintf(sql, sizeof(sql),
             "UPDATE %s AS t SET (%s) = (SELECT %s FROM jsonb_populate_record(t, $1::jsonb)) "
             "WHERE id = $2 RETURNING to_jsonb(t)",
             kind->name, columns, columns);
    r = pg_exec(self->pg, &res, sql, 2, text, id);
    return r ? r : crud_row_at(self, kind, res, 0, ret_row);
}

/* Apply the patch to a row that is locked: rules, references, audit event, what edges get. */
int crud_change_row(crud_t *self, const kind_t *kind, const json_t *old, const json_t *patch,
                    reply_t *reply, json_t **ret_rendered)
{
    _cleanup_(json_clear_ref) json_t *document = change_apply(old, patch);
    _cleanup_(json_clear_ref) json_t *references = NULL;
    _cleanup_(json_clear_ref) json_t *row = NULL;
    bool whole = true;
    int r;

    if (!document)
        return -ENOMEM;
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
        r = crud_render_changed(self, kind, row, ret_rendered, &whole);
    if (!r)
        r = crud_add_audit(self, kind, "updated", *ret_rendered);
    if (!r)
        r = publish_row(self, kind, row);
    reply->too_large = !whole;
    return r;
}

int crud_update(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *patch = NULL;
    _cleanup_(json_clear_ref) json_t *old = NULL;
    int r;

    r = crud_load_addressed(self, kind, true, &old);
    if (!r)
        r = crud_check_row(self, kind, old, &reply->problem);
    if (r)
        return r;
    r = schema_check(kind, OPERATION_UPDATE, old, json_object_get(self->request->body, "document"),
                     &reply->problem, &patch);
    if (r)
        return r;
    r = change_check_patch(kind, patch, &reply->problem);
    if (!r)
        r = crud_change_row(self, kind, old, patch, reply, &reply->body);
    if (!r)
        change_etag(reply->body, reply->etag);
    return r;
}

int crud_command(crud_t *self, const kind_t *kind, reply_t *reply)
{
    _cleanup_(json_clear_ref) json_t *row = NULL;
    const kind_rules_t *rules = kind_rules_find(kind);
    const char *name = crud_text(self->request->body, OPERATION_PART);
    int r;

    if (!name || !kind_command(kind, name) || !rules || !rules->command)
        return ERR_UNKNOWN_VERB;
    r = crud_load_addressed(self, kind, false, &row);
    return r ? r : rules->command(self, row, name, &reply->problem);
}
