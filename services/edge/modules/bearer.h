/* Tokens of machines in the header Authorization (RFC 6750, 2.1), as far as the edge knows them: by
 * their shape. No nginx in here, and no clock. */
#pragma once

#include "services/edge/modules/sessions.h"

typedef struct bearer_text {
    const char *at; /* NULL: there is none */
    size_t len;
} bearer_text_t;

enum {
    BEARER_TOKEN_LEN = 8 + 27 + 1 + 21,
    BEARER_JWT_MAX = 8 << 10 /* bytes: services/identity/bearer_token.c */
};

/* The service token that a value of Authorization has. at NULL: it is for somebody else, and goes
 * to the upstream as it is; len 0 with at: it says that it is one, and cannot be, or something else
 * than a space follows the scheme. */
bearer_text_t bearer_token(const char *value, size_t len);

/* The JWT that a value of Authorization has (RFC 7515 7.1, signed): three parts of base64url with
 * dots between, none of them empty, and BEARER_JWT_MAX bytes at most. at NULL: the scheme is not
 * Bearer; len 0 with at: what it brings is none. */
bearer_text_t bearer_jwt(const char *value, size_t len);

/* The key under which a cache (sessions.h) has the token with that hash at a route under the rules
 * that it is bound to. Another for each, and all end with sessions_end of the hash. */
void bearer_key(const unsigned char *hash, const unsigned char *bound,
                unsigned char out[SESSION_HASH_BYTES]);

/* Keys that identity refused a moment ago: a fixed number, of which a new one may displace any. */
enum { BEARER_REFUSED = 1024 };

typedef struct bearer_refused {
    struct {
        unsigned char key[SESSION_HASH_BYTES];
        int64_t until_ms;
        uint32_t generation; /* sessions_generation before identity was asked */
        int code;            /* what identity said */
    } each[BEARER_REFUSED];
} bearer_refused_t;

/* Identity refused the key with that code, which is not 0, and which it was asked under that
 * generation: until then. */
void bearer_refuse(bearer_refused_t *self, const unsigned char *key, uint32_t generation, int code,
                   int64_t until_ms);
/* The code with which it was refused so, where that is not over; 0: it was not. */
int bearer_refusal(const bearer_refused_t *self, const unsigned char *key, uint32_t generation,
                   int64_t now_ms);
