#include "services/identity/token.h"

#include <sodium.h>
#include <string.h>

void token_make(const crud_t *crud, const char *id, char out[TOKEN_LEN + 1])
{
    unsigned char bytes[32];

    secret_derive(crud->key, "api_key token", id, bytes);
    memcpy(out, strchr(id, '_') + 1, KSUID_LEN);
    out[KSUID_LEN] = '_';
    base62_from(bytes, TOKEN_SECRET_LEN, out + KSUID_LEN + 1);
    sodium_memzero(bytes, sizeof(bytes));
}

void token_hash(const char *token, char out[TOKEN_HASH_SIZE])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)token, strlen(token));
    sodium_bin2hex(out, TOKEN_HASH_SIZE, hash, sizeof(hash));
}

void token_note(const crud_t *crud, json_t *document)
{
    char token[TOKEN_LEN + 1], hash[TOKEN_HASH_SIZE];

    token_make(crud, json_string_value(json_object_get(document, "id")), token);
    token_hash(token, hash);
    sodium_memzero(token, sizeof(token));
    json_object_set_new(document, "token_hash", json_string(hash));
}

int token_reveal(crud_t *crud, const json_t *row, json_t *rendered)
{
    char token[TOKEN_LEN + 1];

    token_make(crud, json_string_value(json_object_get(row, "id")), token);
    json_object_set_new(rendered, "token", json_string(token));
    sodium_memzero(token, sizeof(token));
    return 0;
}

int token_shape(const char *token)
{
    if (strlen(token) != TOKEN_LEN || token[KSUID_LEN] != '_' || !base62_check(token, KSUID_LEN)
        || !base62_check(token + KSUID_LEN + 1, TOKEN_SECRET_LEN))
        return ERR_AUTH_MALFORMED;
    return 0;
}

bool token_is(const char hash[TOKEN_HASH_SIZE], const char *stored)
{
    return strlen(stored) == TOKEN_HASH_SIZE - 1
           && !sodium_memcmp(hash, stored, TOKEN_HASH_SIZE - 1);
}
