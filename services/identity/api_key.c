#include "services/identity/api_key.h"
#include "common/cleanup.h"
#include "common/id.h"

#include <errno.h>
#include <sodium.h>
#include <string.h>

enum { TOKEN_LEN = KSUID_LEN + 1 + TOKEN_SECRET_LEN, HASH_HEX = 65 };

static void make_token(const crud_t *crud, const char *id, char out[TOKEN_LEN + 1])
{
    unsigned char bytes[32];

    secret_derive(crud->key, "api_key token", id, bytes);
    memcpy(out, strchr(id, '_') + 1, KSUID_LEN);
    out[KSUID_LEN] = '_';
    base62_from(bytes, TOKEN_SECRET_LEN, out + KSUID_LEN + 1);
    sodium_memzero(bytes, sizeof(bytes));
}

static void hash_token(const char *token, char out[HASH_HEX])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
    sodium_bin2hex(out, HASH_HEX, hash, sizeof(hash));
}

int api_key_check(crud_t *crud, json_t *document, const json_t *old, json_t *references,
                  problem_t *problem)
{
    const char *owner = json_string_value(json_object_get(document, "owner_id"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    char token[TOKEN_LEN + 1], hash[HASH_HEX];
    int r;

    (void)references;
    if (old)
        return 0;
    if (!owner)
        owner = json_string_value(json_object_get(crud->request->actor, "id"));
    if (!owner)
        return problem_add(problem, ERR_REQUIRED_MISSING, "owner_id", "is required");
    r = pg_exec(crud->pg, &res, "SELECT 1 FROM owner WHERE id = $1 AND account_id = $2", 2, owner,
                crud->request->account);
    if (r)
        return r;
    if (PQntuples(res) == 0)
        return problem_add(problem, ERR_REF_NONEXISTENT, "owner_id", "'%.64s' does not exist",
                           owner);
    make_token(crud, json_string_value(json_object_get(document, "id")), token);
    hash_token(token, hash);
    sodium_memzero(token, sizeof(token));
    json_object_set_new(document, "owner_id", json_string(owner));
    json_object_set_new(document, "token_hash", json_string(hash));
    return 0;
}

int api_key_created(crud_t *crud, const json_t *row, json_t *rendered)
{
    char token[TOKEN_LEN + 1];

    make_token(crud, json_string_value(json_object_get(row, "id")), token);
    json_object_set_new(rendered, "token", json_string(token));
    sodium_memzero(token, sizeof(token));
    return 0;
}

static int token_shape(const char *token)
{
    if (id_check("ak", token))
        return ERR_AUTH_IS_KEY_ID;
    if (strlen(token) != TOKEN_LEN || token[KSUID_LEN] != '_' || !base62_check(token, KSUID_LEN)
        || !base62_check(token + KSUID_LEN + 1, TOKEN_SECRET_LEN))
        return ERR_AUTH_MALFORMED;
    return 0;
}

int on_api_key_authenticate(crud_t *crud, const request_t *request, reply_t *reply)
{
    const char *token = json_string_value(json_object_get(request->body, "token"));
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    _cleanup_(free_mem) char *uri = NULL;
    char id[ID_MAX], hash[HASH_HEX];
    int r;

    r = token_shape(token ? token : "");
    if (r)
        return r;
    snprintf(id, sizeof(id), "ak_%.*s", KSUID_LEN, token);
    hash_token(token, hash);
    r = pg_exec(crud->pg, &res,
                "SELECT k.token_hash, k.account_id, o.id, o.email, o.active "
                "FROM api_key k JOIN owner o ON o.id = k.owner_id WHERE k.id = $1",
                1, id);
    if (r)
        return r;
    if (PQntuples(res) == 0 || strlen(PQgetvalue(res, 0, 0)) != HASH_HEX - 1
        || sodium_memcmp(hash, PQgetvalue(res, 0, 0), HASH_HEX - 1))
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
