/* The words that a sign-in goes by, and their shapes: values of cookies, states, hosts, targets.
 * All of them come from browsers. No clock, no database. */
#pragma once

#include "common/base/id.h"

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

enum {
    WORDS_TOKEN_LEN = 43, /* base64url of 32 random bytes: cookies' values, codes, verifiers */
    WORDS_STATE_LEN = 22, /* of 16: what makes one flow's state unlike another's */
    WORDS_HASH_BYTES = 32,
    WORDS_HEX_SIZE = 65,
    WORDS_HOST_MAX = 261,
    WORDS_TARGET_MAX = 2048,
    WORDS_AGENT_MAX = 512,
    WORDS_PARAMS_MAX = 16 << 10,
    WORDS_SAML_MAX = 72 << 10 /* of a form with a SAML response */
};

/* Make random ones. */
void words_token(char out[WORDS_TOKEN_LEN + 1]);
void words_state(char out[WORDS_STATE_LEN + 1]);

/* Is it of that many characters of base64url (RFC 4648, 5)? NULL is not. */
bool words_is_token(const char *text, size_t len);

/* SHA-256 of a text, as bytes and in hexadecimal. */
void words_hash(const char *text, unsigned char out[WORDS_HASH_BYTES]);
void words_hex(const char *text, char out[WORDS_HEX_SIZE]);
/* Is it such a hexadecimal hash, in lower case? */
bool words_is_hex(const char *text);
/* Are two texts of the same length equal? In constant time. NULL equals nothing. */
bool words_equal(const char *one, const char *other);

/* A host name or IPv4 address with or without a port, in lower case, as the edge has it. */
bool words_is_host(const char *text);

/* Where a browser goes after it has signed in: the path and query itself, if every browser takes it
 * for one of the host that it is at; else "/". What is below /auth/ leads to "/", too: it would end
 * the session or begin another sign-in. Borrowed. */
const char *words_target(const char *text);

/* Split the state of a callback, "<id of a route>.<state of a flow>". False: it is none. */
bool words_split_state(const char *text, char route[ID_MAX], char state[WORDS_STATE_LEN + 1]);

/* Are these parameters of a callback, {name: [values]}, with at most so many bytes? */
bool words_are_params(const json_t *params, size_t max);

/* Copy of a User-Agent, cut to WORDS_AGENT_MAX bytes at the end of a character. A new reference. */
json_t *words_agent(const char *text);
