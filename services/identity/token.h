/* Tokens of API keys and credentials: KSUID_SECRET. The KSUID is the object's id without its
 * prefix. The secret is derived from the master key and the id, so that a creation that is sent
 * again after a crash returns the token that the first one made. Only the token's hash is
 * stored. */
#pragma once

#include "common/resource/crud.h"
#include "common/base/id.h"

enum { TOKEN_LEN = KSUID_LEN + 1 + TOKEN_SECRET_LEN, TOKEN_HASH_SIZE = 65 };

/* Write the token of the object with this id; the id's prefix makes tokens of different kinds
 * differ. Wipe it after use. */
void token_make(const crud_t *crud, const char *id, char out[TOKEN_LEN + 1]);

/* SHA-256 of the token, in hexadecimal. */
void token_hash(const char *token, char out[TOKEN_HASH_SIZE]);

/* Put the token's hash into a document that is being created. */
void token_note(const crud_t *crud, json_t *document);

/* Put the token into the response of a creation, the only one that shows it. 0. */
int token_reveal(crud_t *crud, const json_t *row, json_t *rendered);

/* Does the text have the shape of a token? 0 | ERR_AUTH_MALFORMED. */
int token_shape(const char *token);

/* Is this the stored hash? Compared in constant time. */
bool token_is(const char hash[TOKEN_HASH_SIZE], const char *stored);
