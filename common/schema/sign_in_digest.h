/* The digest of a sign-in module's rules: a session has that of the rules which admitted it, and an
 * edge that of the rules in force. postern-routes and postern-identity both make it. */
#pragma once

#include "common/base/secret.h"

enum { SIGN_IN_DIGEST_SIZE = 65 };

/* What the sealed module of a route is sealed for (secret_seal_for): no other text that services
 * seal under the same key opens as one. */
#define SIGN_IN_SEALED "module of a sign-in"

/* What names of cookies have behind "__Host-" where a module's cookie_prefix is empty; edges have
 * it in table/sign_in.c. */
#define SIGN_IN_PREFIX "postern."

/* HMAC, in hexadecimal, of the module's name ("oauth", "oidc", "saml") and its whole document.
 * 0 | -ENOMEM. */
int sign_in_digest(const secret_key_t *key, const char *module, const json_t *config,
                   char out[SIGN_IN_DIGEST_SIZE]);
