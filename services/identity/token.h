/* Tokens of API keys and credentials: KSUID_SECRET. The KSUID is the object's id without its prefix, the
 * secret is derived from the master key and the id, so that a creation that is retried after a crash
 * returns the token that the first try made. Only its hash is stored. */
#pragma once

#include "common/resource/crud.h"
#include "common/base/id.h"

enum { TOKEN_LEN = KSUID_LEN + 1 + TOKEN_SECRET_LEN, TOKEN_HASH_SIZE = 65 };

/* The token of the object with this id; the id's prefix keeps the kinds apart. Wipe it after use. */
void token_make(const crud_t *crud, const char *id, char out[TOKEN_LEN + 1]);

/* SHA-256, hex. */
void token_hash(const char *token, char out[TOKEN_HASH_SIZE]);

/* Put the token's hash into a document that is being created. */
void token_note(const crud_t *crud, json_t *document);

/* Put the token into a creation response. 0. */
int token_reveal(crud_t *crud, const json_t *row, json_t *rendered);

/* 0 | ERR_AUTH_MALFORMED */
int token_shape(const char *token);

/* The hash is the stored one, compared in constant time. */
bool token_is(const char hash[TOKEN_HASH_SIZE], const char *stored);
