/* The digest of a sign-in module's rules: a session has that of the rules which admitted it, and an
 * edge that of the rules in force. postern-routes and postern-identity both make it. */
#pragma once

#include "common/base/secret.h"

enum { SIGN_IN_DIGEST_SIZE = 65 };

/* HMAC, in hexadecimal, of the module's name ("oauth", "oidc", "saml") and its whole document.
 * 0 | -ENOMEM. */
int sign_in_digest(const secret_key_t *key, const char *module, const json_t *config,
                   char out[SIGN_IN_DIGEST_SIZE]);
