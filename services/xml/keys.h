/* The keys with which an identity provider signs, from the certificates of its metadata. What is
 * trusted is the metadata: a certificate there is a container of a key, and its dates, issuer and
 * usage mean nothing (SAML V2.0 Metadata Interoperability Profile, 2.6.1). */
#pragma once

#include "common/base/err.h"

#include <libxml/tree.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdint.h>

enum { KEYS_MAX = 8 };

typedef enum key_kind { KEY_RSA, KEY_EC } key_kind_t;

typedef struct signing_key {
    EVP_PKEY *pkey;
    key_kind_t kind;
    int bits;
    char sha256[65];     /* of the certificate, hexadecimal */
    char key_sha256[65]; /* of its public key (SubjectPublicKeyInfo), whatever certificate has it */
    int64_t not_after_ms;
} signing_key_t;

/* No more than KEYS_MAX; all zero: none. */
typedef struct keys {
    signing_key_t list[KEYS_MAX];
    int count;
    int unusable; /* certificates with a key that nothing is verified with */
} keys_t;

/* Take the keys for signing of an IDPSSODescriptor: of each KeyDescriptor without use, or for
 * signing, the first certificate. RSA from 2,048 to 8,192 bits, EC over P-256, P-384 and P-521; a
 * certificate with another key is counted. 0 | ERR_SAML_METADATA: a certificate cannot be read,
 * there are too many, or none has a key that can be used. */
int keys_take(keys_t *self, const xmlNode *descriptor, problem_t *problem);

/* Free the keys. */
void keys_done(keys_t *self);
