/* postern-identity owns accounts, API keys and their owners, vaults, identities and sessions.
 * Binds: RPC, the session log. Publishes: audit events through its outbox. Sole holder of key
 * hashes. Must never forward traffic. */
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/resource/service.h"
#include "services/identity/api_key.h"
#include "services/identity/owner.h"
#include "services/identity/ssh_authority.h"
#include "services/identity/self.h"
#include "services/identity/token.h"

#include <errno.h>
#include <string.h>

/* account.create {name, email} -> {id, owner_id}; the same e-mail again returns the same
 * account. */
static int on_account_create(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *name = json_string_value(json_object_get(request->body, "name"));
    const char *email = json_string_value(json_object_get(request->body, "email"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char account[ID_MAX], owner[ID_MAX];
    int r;

    if (!name || !*name || strlen(name) > 255 || !email || !strchr(email, '@')
        || strlen(email) > 254)
        return problem_add(&reply->problem, ERR_INVALID_FIELD, name && *name ? "email" : "name",
                           "an account needs a name and an e-mail address");
    crud->changes = true; /* one statement by itself, without crud_begin */
    id_make("ac", account);
    id_make("usr", owner);
    r = pg_exec(crud->pg, &res,
                "WITH old AS (SELECT account_id, id FROM owner WHERE email = $4), "
                "a AS (INSERT INTO account (id, name) SELECT $1, $2 "
                "      WHERE NOT EXISTS (SELECT 1 FROM old) RETURNING id), "
                "o AS (INSERT INTO owner (id, account_id, email) SELECT $3, a.id, $4 FROM a "
                "      RETURNING account_id, id) "
                "SELECT account_id, id FROM old UNION ALL SELECT account_id, id FROM o LIMIT 1",
                4, account, name, owner, email);
    if (r)
        return r;
    reply->body =
        json_pack("{s:s, s:s}", "id", PQgetvalue(res, 0, 0), "owner_id", PQgetvalue(res, 0, 1));
    return reply->body ? 0 : -ENOMEM;
}

static const verb_t verbs[] = {
#define OWN_VERBS_identity OWN_VERBS
#include "common/resource/own_verbs.h"
    {NULL, NULL},
};

extern const migration_t identity_migrations[]; /* made by the build */

int main(int argc, char **argv)
{
    const service_spec_t spec = {
        .id = SERVICE_identity,
        .migrations = identity_migrations,
        .verbs = verbs,
        .is_slow = ssh_authority_is_slow,
    };

    return service_main(&spec, argc, argv);
}
