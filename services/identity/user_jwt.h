/* Signed words for upstreams about who has signed in: JSON Web Tokens (RFC 7519, 9068's claims as
 * far as they fit), signed with ES256. The key of each period of 30 days is derived from the master
 * key, so that all copies have the same, nothing is stored, and no edge has one. No clock, no
 * database. */
#pragma once

#include "common/base/secret.h"
#include "services/identity/person.h"

enum {
    USER_JWT_LASTS_S = 600, /* at most; never longer than what it is about */
    USER_JWT_PERIOD_S = 30 * 86400,
    USER_JWT_MAX = 4096 /* characters: groups are left out of one that would be longer */
};

typedef struct user_jwt {
    const char *issuer;   /* URL of the sign-in host */
    const char *audience; /* "https://" and the host */
    const char *subject;  /* id of the API's */
    const char *session;  /* the same of the session; NULL: it is of none */
    const person_t *person;
    int64_t now_s, expires_s;
} user_jwt_t;

/* Make one; the caller frees it. 0 | -EMSGSIZE: it is too long even without groups | fault. */
int user_jwt_make(const secret_key_t *key, const user_jwt_t *what, char **ret_text);

/* The public keys of the periods before now, now and next, as a JSON Web Key Set (RFC 7517). 0 |
 * fault. */
int user_jwt_keys(const secret_key_t *key, int64_t now_s, json_t **ret_keys);
