/* One call: its operation in a transaction that also records the request, so that a repetition gets
 * the same answer; and the config log entries that the transaction writes. */
#include "common/base/cleanup.h"
#include "common/resource/change.h"
#include "common/resource/crud_internal.h"
#include "common/store/notes.h"
#include "common/codec/pack.h"
#include "common/resource/replog.h"

#include <errno.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- the config log ---- */

int crud_publish(crud_t *self, const char *kind, const char *id, const json_t *document)
{
    _cleanup_(free_mem) char *sealed = NULL;
    msgpack_sbuffer buffer;
    char key[64 + ID_MAX];
    int r = 0;

    if (document) {
        msgpack_sbuffer_init(&buffer);
        r = pack_json(&buffer, document);
        if (!r && !(sealed = secret_seal(self->key, buffer.data, buffer.size)))
            r = -ENOMEM;
        msgpack_sbuffer_destroy(&buffer);
    }
    if (!self->entries)
        self->entries = json_object();
    snprintf(key, sizeof(key), "%s %s", kind, id);
    if (!r && json_object_set_new(self->entries, key, sealed ? json_string(sealed) : json_null()))
        r = -ENOMEM;
    return r;
}

int crud_begin(crud_t *self)
{
    self->changes = true;
    return pg_defer(self->pg, "BEGIN", 0);
}

static int commit(crud_t *self, int64_t *ret_revision)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *entries = NULL;
    notes_key_t key;
    char floor[24], channel[64];
    int r;

    *ret_revision = 0;
    if (!self->entries)
        return pg_commit(self->pg, NULL, NULL, 0);
    entries = json_dumps(self->entries, JSON_COMPACT);
    if (!entries)
        return -ENOMEM;
    /* The head row stays locked until the commit: keep this last. A revision is a time, so that a
     * database restored from a backup does not assign a revision again that another change had. If
     * the clock is behind, a random step does the same. And a revision is higher than every one
     * that edges may have acknowledged: else an old acknowledgement would count for it. */
    snprintf(floor, sizeof(floor), "%" PRId64, replog_highest());
    snprintf(channel, sizeof(channel), REPLOG_CHANNEL, self->service);
    notes_key_init(&key, self->key);
    r = pg_commit(
        self->pg, &res,
        "WITH head AS (UPDATE config_head SET revision = "
        "              greatest(greatest(revision, $3::bigint) + 1 + (random() * 1000)::int, "
        "                       (extract(epoch FROM clock_timestamp()) * 1000000)::bigint) "
        "              RETURNING revision), "
        "given AS (INSERT INTO config_revision (revision) SELECT revision FROM head), "
        "written AS (INSERT INTO config_entry (kind, id, revision, doc) "
        "            SELECT split_part(e.key, ' ', 1), split_part(e.key, ' ', 2), "
        "                   head.revision, e.value "
        "            FROM head, jsonb_each_text($2::jsonb) e "
        "            ON CONFLICT (kind, id) DO UPDATE "
        "            SET revision = EXCLUDED.revision, doc = EXCLUDED.doc, "
        "                account_id = coalesce(EXCLUDED.account_id, config_entry.account_id)), "
        "noted AS (UPDATE request SET revision = (SELECT revision FROM head) "
        "          WHERE key = $1) "
        "SELECT revision, " NOTES_NOTIFY(
            "$6::text", "note", "$4",
            "$5") " FROM ("
                  "SELECT revision, '{\"revision\":' || revision || '}' AS note FROM head) said",
        6, self->request_key, entries, floor, key.inner, key.outer, channel);
    sodium_memzero(&key, sizeof(key));
    if (!r)
        *ret_revision = strtoll(PQgetvalue(res, 0, 0), NULL, 10);
    return r;
}

int crud_end(crud_t *self, int r, int64_t *ret_revision)
{
    if (!r)
        r = commit(self, ret_revision);
    if (r)
        pg_rollback(self->pg);
    json_decref(self->entries);
    self->entries = NULL;
    return r;
}

/* ---- requests ---- */

static int redo_nothing(crud_t *self, const kind_t *kind, reply_t *reply)
{
    (void)self, (void)kind, (void)reply;
    return 0;
}

typedef struct handler {
    int (*run)(crud_t *, const kind_t *, reply_t *);
    int (*redo)(crud_t *, const kind_t *, reply_t *); /* answer again; NULL: it only reads */
} handler_t;

/* How a repetition of each request is answered. */
#define crud_redo_update         crud_get
#define crud_redo_delete         redo_nothing
#define crud_redo_replace_module crud_get_module
#define crud_redo_delete_module  redo_nothing
#define crud_redo_update_member  crud_get_member
#define crud_redo_delete_member  redo_nothing
#define crud_redo_command        redo_nothing

/* In the order of proto/operations.def: crud_<name>, and for operations that change something
 * crud_redo_<name>. */
#define REDO_READS(name)   NULL
#define REDO_CHANGES(name) crud_redo_##name
static const handler_t handlers[] = {
#define OPERATION(word, name, method, places, needs, effect, ...)                                  \
    {crud_##name, REDO_##effect(name)},
#include "proto/operations.def"
};
static_assert(LEN(handlers) == OPERATIONS, "a handler for each operation");

/* Record the request's idempotency key in the transaction that executes it: a repetition violates
 * the constraint CRUD_CLAIMED, which is reported with the first statement whose result is read. */
static int claim_request(crud_t *self, const kind_t *kind, const handler_t *handler)
{
    const char *id = crud_text(self->request->body, "id");
    char limit[24] = "";

    if (handler->run == crud_create)
        id_make(kind->prefix, self->object);
    else
        snprintf(self->object, sizeof(self->object), "%s", id ? id : "");
    /* config_limit is for the trigger of config_bytes.sql, when the config log is written */
    if (self->config_log && self->config_limit)
        snprintf(limit, sizeof(limit), "%ld", self->config_limit);
    return pg_defer(self->pg,
                    "INSERT INTO request (key, verb, object_id, fingerprint) SELECT $1, $2, $3, $4 "
                    "FROM set_config('postern.config_limit', $5, true)",
                    5, self->request_key, self->request->verb, self->object, self->fingerprint,
                    limit);
}

static int refuse_bytes(const crud_t *self, problem_t *problem)
{
    return problem_add(problem, ERR_LIMIT_EXCEEDED, NULL,
                       "the limit is %ld bytes of configuration for edges in an account, and with "
                       "this change there would be more",
                       self->config_limit);
}

/* Answer a repetition from the record of the first execution. Records of older versions have no
 * fingerprint: then only operation and object are compared. */
static int redo_request(crud_t *self, const kind_t *kind, const handler_t *handler, reply_t *reply)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    const char *id = crud_text(self->request->body, "id");
    int r;

    r = pg_exec(self->pg, &res,
                "SELECT coalesce(object_id, ''), coalesce(revision, 0) FROM request "
                "WHERE key = $1 AND verb = $2 "
                "AND coalesce(fingerprint = $3, $4 IN ('', object_id))",
                4, self->request_key, self->request->verb, self->fingerprint, id ? id : "");
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return ERR_IDEMPOTENCY_KEY_USED;
    snprintf(self->object, sizeof(self->object), "%s", PQgetvalue(res, 0, 0));
    reply->revision = strtoll(PQgetvalue(res, 0, 1), NULL, 10);
    return handler->redo(self, kind, reply);
}

static int change(crud_t *self, const kind_t *kind, const handler_t *handler, reply_t *reply)
{
    int r = change_fingerprint(self->key, self->request, self->fingerprint);

    if (!r)
        r = crud_begin(self);
    if (!r)
        r = claim_request(self, kind, handler);
    if (!r)
        r = handler->run(self, kind, reply);
    r = crud_end(self, r, &reply->revision);
    if (r == PG_OVER_LIMIT && !strcmp(pg_constraint(self->pg), "config_bytes"))
        return refuse_bytes(self, &reply->problem);
    if (r != PG_DUPLICATE || strcmp(pg_constraint(self->pg), CRUD_CLAIMED))
        return r;
    reply_done(reply);
    *reply = (reply_t){0};
    return redo_request(self, kind, handler, reply);
}

int crud_call(crud_t *self, const kind_t *kind, const char *name, const request_t *request,
              reply_t *reply)
{
    const operation_t *operation = operation_all();
    const handler_t *handler = handlers;

    self->request = request;
    snprintf(self->request_key, sizeof(self->request_key), "%s/%s", request->account, request->key);
    while (operation->name
           && (strcmp(operation->name, name) || !(kind->operations & operation->needs)))
        operation++, handler++;
    if (!operation->name)
        return ERR_UNKNOWN_VERB;
    if (!operation->changes)
        return handler->run(self, kind, reply);
    self->revokes =
        kind->operations & (operation->bit == OPERATION_CREATE ? KIND_CREATE_ADMITS : KIND_ADMITS);
    return change(self, kind, handler, reply);
}
