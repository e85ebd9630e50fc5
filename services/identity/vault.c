/* Rules of vaults and secrets beyond their tables. */
#include "common/resource/kind_rules.h"
#include "common/base/cleanup.h"

#include <string.h>

static void note_change(crud_t *crud, json_t *document, const json_t *old)
{
    const json_t *who = json_object_get(crud->request->actor, "id");
    char now[32];

    crud_now(now);
    json_object_set_new(document, "updated_at", json_string(now));
    json_object_set_new(document, "last_updated_by",
                        json_is_string(who) ? json_deep_copy(who) : json_string(""));
    if (!old)
        json_object_set(document, "created_by", json_object_get(document, "last_updated_by"));
}

/* Note who changed the vault and when; a new name is copied to its secrets. */
static int vault_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                       problem_t *problem)
{
    const json_t *name = json_object_get(document, "name");

    (void)references;
    (void)problem;
    note_change(crud, document, old);
    if (!old || json_equal(name, json_object_get(old, "name")))
        return 0;
    return pg_exec(crud->pg, NULL, "UPDATE secret SET vault_name = $2 WHERE vault_id = $1", 2,
                   json_string_value(json_object_get(document, "id")), json_string_value(name));
}

/* One row (id, name) of the vault with this id or name; no row: there is none. */
static int find_vault(crud_t *crud, const char *id, const char *name, PGresult **ret_rows)
{
    return pg_exec(
        crud->pg, ret_rows,
        "SELECT id, name FROM vault WHERE account_id = $1 AND ($2::text IS NULL OR id = $2) "
        "AND ($3::text IS NULL OR name = $3) FOR SHARE",
        3, crud->request->account, id, name);
}

/* Find the vault by vault_id or vault_name, which must not contradict each other. */
static int secret_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                        problem_t *problem)
{
    const char *id = json_string_value(json_object_get(document, "vault_id"));
    const char *name = json_string_value(json_object_get(document, "vault_name"));
    _cleanup_(pgresult_clear) PGresult *rows = NULL;
    int r;

    note_change(crud, document, old);
    if (old)
        return 0;
    if (!id && !name)
        return problem_add(problem, ERR_REQUIRED_MISSING, "vault_id",
                           "is required: vault_id or vault_name");
    r = find_vault(crud, id, name, &rows);
    if (r)
        return r;
    if (PQntuples(rows) == 0)
        return problem_add(problem, ERR_REF_NONEXISTENT, id ? "vault_id" : "vault_name",
                           "there is no such vault");
    if (!id)
        json_array_append_new(references, json_pack("[s, s]", "vault_id", PQgetvalue(rows, 0, 0)));
    json_object_set_new(document, "vault_id", json_string(PQgetvalue(rows, 0, 0)));
    json_object_set_new(document, "vault_name", json_string(PQgetvalue(rows, 0, 1)));
    return 0;
}

KIND_RULES(vault, .check = vault_check);
KIND_RULES(secret, .check = secret_check);
