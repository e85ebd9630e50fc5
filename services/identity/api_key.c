#include "services/identity/api_key.h"
#include "common/base/cleanup.h"
#include "common/resource/kind_rules.h"
#include "services/identity/owner.h"
#include "services/identity/token.h"

#include <errno.h>
#include <string.h>

static int api_key_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                         problem_t *problem)
{
    if (!old)
        token_note(crud, document);
    return owner_check(crud, document, references, problem);
}

/* The error for a well-formed token that is not an API key's. Using a credential's token is a
 * common mistake and gets an error of its own. */
static int not_a_key(crud_t *crud, const char *token, const char hash[TOKEN_HASH_SIZE])
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char id[ID_MAX];
    int r;

    snprintf(id, sizeof(id), "cr_%.*s", KSUID_LEN, token);
    r = pg_exec(crud->pg, &res, "SELECT token_hash FROM credential WHERE id = $1", 1, id);
    if (r)
        return r;
    return PQntuples(res) && token_is(hash, PQgetvalue(res, 0, 0)) ? ERR_AUTH_WRONG_KIND
                                                                   : ERR_AUTH_UNKNOWN;
}

int on_api_key_authenticate(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *token = json_string_value(json_object_get(request->body, "token"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *uri = NULL;
    char id[ID_MAX], hash[TOKEN_HASH_SIZE];
    int r;

    if (token && id_check("ak", token))
        return ERR_AUTH_IS_KEY_ID;
    r = token_shape(token ? token : "");
    if (r)
        return r;
    snprintf(id, sizeof(id), "ak_%.*s", KSUID_LEN, token);
    token_hash(token, hash);
    r = pg_exec(crud->pg, &res,
                "SELECT k.token_hash, k.account_id, o.id, o.email, o.active "
                "FROM api_key k JOIN owner o ON o.id = k.owner_id WHERE k.id = $1",
                1, id);
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return not_a_key(crud, token, hash);
    if (!token_is(hash, PQgetvalue(res, 0, 0)))
        return ERR_AUTH_UNKNOWN;
    if (strcmp(PQgetvalue(res, 0, 4), "t"))
        return ERR_AUTH_OWNER_INACTIVE;
    uri = schema_uri(kind_find("api_key"), id, NULL, crud->base_url);
    reply->body =
        json_pack("{s:s, s:{s:s, s:s, s:s, s:{s:s, s:s}}}", "account", PQgetvalue(res, 0, 1),
                  "actor", "id", PQgetvalue(res, 0, 2), "subject", PQgetvalue(res, 0, 3), "source",
                  "API", "credential", "id", id, "uri", uri);
    return reply->body ? 0 : -ENOMEM;
}

KIND_RULES(api_key, .check = api_key_check, .created = token_reveal);
