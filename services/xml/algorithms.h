/* The algorithms of signatures and digests that are accepted. SHA-1, HMAC and RSA with MGF1 are
 * not in the table, so they are refused. */
#pragma once

#include "services/xml/keys.h"

#include <openssl/evp.h>

typedef struct algorithm {
    const char *uri;
    const char *digest; /* OpenSSL's name */
    key_kind_t kind;    /* of a signature's key */
} algorithm_t;

/* The row of a SignatureMethod, and of a DigestMethod. NULL: it is not accepted. */
const algorithm_t *algorithm_of_signature(const char *uri);
const algorithm_t *algorithm_of_digest(const char *uri);
