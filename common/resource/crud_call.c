/* One call: its operation, in a transaction that notes the request, so that the same one again
 * gets the same answer; and the config entries that the transaction writes. */
#include "common/base/cleanup.h"
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
    char floor[24];
    int r;

    *ret_revision = 0;
    if (!self->entries)
        return pg_commit(self->pg, NULL, NULL, 0);
    entries = json_dumps(self->entries, JSON_COMPACT);
    if (!entries)
        return -ENOMEM;
    /* The head row stays locked until the commit: keep this last. A revision is a time, so that
     * a database from a backup does not give one again that was given to another change. Where
     * the clock stands in the past a random step does that; and no revision is lower than one
     * that edges may have acknowledged, which would pass for an acknowledgement of this one. */
    snprintf(floor, sizeof(floor), "%" PRId64, replog_highest());
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
        "            SET revision = EXCLUDED.revision, doc = EXCLUDED.doc), "
        "noted AS (UPDATE request SET revision = (SELECT revision FROM head) "
        "          WHERE key = $1) "
        "SELECT revision, " NOTES_NOTIFY(
            "'routes_config'", "note", "$4",
            "$5") " FROM ("
                  "SELECT revision, '{\"revision\":' || revision || '}' AS note FROM head) said",
        5, self->request_key, entries, floor, key.inner, key.outer);
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

typedef struct operation {
    const char *name;
    unsigned bit; /* that a kind needs to have it */
    int (*run)(crud_t *, const kind_t *, reply_t *);
    int (*redo)(crud_t *, const kind_t *, reply_t *); /* answer again; NULL: it only reads */
} operation_t;

static const operation_t operations[] = {
    {"create", OPERATION_CREATE, crud_create, crud_redo_create},
    {"get", OPERATION_GET, crud_get, NULL},
    {"list", OPERATION_LIST, crud_list, NULL},
    {"update", OPERATION_UPDATE, crud_update, crud_get},
    {"delete", OPERATION_DELETE, crud_delete, redo_nothing},
    {"command", OPERATION_GET, crud_command, redo_nothing},
    {"get_module", OPERATION_GET, crud_get_module, NULL},
    {"replace_module", OPERATION_UPDATE, crud_replace_module, crud_get_module},
    {"delete_module", OPERATION_UPDATE, crud_delete_module, redo_nothing},
    {"list_members", OPERATION_GET, crud_list_members, NULL},
    {"get_member", OPERATION_GET, crud_get_member, NULL},
    {"create_member", OPERATION_UPDATE, crud_create_member, crud_redo_create_member},
    {"update_member", OPERATION_UPDATE, crud_update_member, crud_get_member},
    {"delete_member", OPERATION_UPDATE, crud_delete_member, redo_nothing},
    {NULL, 0, NULL, NULL},
};

/* What the call asks for, in one spelling: the operation and all of the body that says on what
 * and with what. The path says that too, but in several spellings, and a precondition only says
 * when. Keyed, because bodies hold secrets. */
static int take_fingerprint(crud_t *self)
{
    _cleanup_(json_clear_ref) json_t *asked = json_copy(self->request->body);
    _cleanup_(json_clear_ref) json_t *whole = NULL;
    unsigned char hash[32];
    char *text;

    json_object_del(asked, "path");
    json_object_del(asked, "if_match");
    whole = json_pack("[s, O]", self->request->verb, asked);
    text = whole ? json_dumps(whole, JSON_COMPACT | JSON_SORT_KEYS) : NULL;
    if (!text)
        return -ENOMEM;
    secret_derive(self->key, "idempotency", text, hash);
    sodium_bin2hex(self->fingerprint, sizeof(self->fingerprint), hash, sizeof(hash));
    secret_free(&text, strlen(text));
    return 0;
}

/* The request is noted in the transaction that does it, so a second one with the same key meets
 * CRUD_CLAIMED, at the first statement whose result anybody waits for. */
static int claim_request(crud_t *self, const kind_t *kind, const operation_t *operation)
{
    const char *id = crud_text(self->request->body, "id");

    if (operation->run == crud_create)
        id_make(kind->prefix, self->object);
    else
        snprintf(self->object, sizeof(self->object), "%s", id ? id : "");
    return pg_defer(
        self->pg, "INSERT INTO request (key, verb, object_id, fingerprint) VALUES ($1, $2, $3, $4)",
        4, self->request_key, self->request->verb, self->object, self->fingerprint);
}

/* What the same request did before. Of one without a fingerprint, from before there were any,
 * only the operation and the object are known. */
static int redo_request(crud_t *self, const kind_t *kind, const operation_t *operation,
                        reply_t *reply)
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
    return operation->redo(self, kind, reply);
}

static int change(crud_t *self, const kind_t *kind, const operation_t *operation, reply_t *reply)
{
    int r = take_fingerprint(self);

    if (!r)
        r = crud_begin(self);
    if (!r)
        r = claim_request(self, kind, operation);
    if (!r)
        r = operation->run(self, kind, reply);
    r = crud_end(self, r, &reply->revision);
    if (r != PG_DUPLICATE || strcmp(pg_constraint(self->pg), CRUD_CLAIMED))
        return r;
    reply_done(reply);
    *reply = (reply_t){0};
    return redo_request(self, kind, operation, reply);
}

int crud_call(crud_t *self, const kind_t *kind, const char *name, const request_t *request,
              reply_t *reply)
{
    const operation_t *operation = operations;

    self->request = request;
    snprintf(self->request_key, sizeof(self->request_key), "%s/%s", request->account, request->key);
    while (operation->name
           && (strcmp(operation->name, name) || !(kind->operations & operation->bit)))
        operation++;
    if (!operation->name)
        return ERR_UNKNOWN_VERB;
    if (!operation->redo)
        return operation->run(self, kind, reply);
    self->revokes =
        kind->operations & (operation->bit == OPERATION_CREATE ? KIND_CREATE_ADMITS : KIND_ADMITS);
    return change(self, kind, operation, reply);
}
