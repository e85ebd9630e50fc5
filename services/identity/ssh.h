/* OpenSSH keys and certificates (RFC 4253 6.6, RFC 5656, RFC 8709, OpenSSH's PROTOCOL.certkeys).
 * OpenSSL only, no state. */
#pragma once

#include "common/base/err.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Type of a public key in authorized_keys form: "rsa", "ecdsa" or "ed25519"; NULL when it is no
 * key. */
const char *ssh_key_type(const char *public_key);

/* Make a key pair: type as above, curve "p256", "p384" or "p521" for ecdsa, bits for rsa. The
 * caller frees both. 0 | -EIO. */
int ssh_make_key(const char *type, const char *curve, int bits, char **ret_public_key,
                 char **ret_private_key_pem);

typedef struct ssh_certificate {
    const char *public_key; /* the key to certify, in authorized_keys form */
    bool host;              /* true: a host's certificate; false: a user's */
    const char *key_id;
    const json_t *principals;                    /* array of strings */
    int64_t valid_after, valid_until;            /* Unix time, seconds */
    const json_t *critical_options, *extensions; /* name -> value; NULL for hosts */
} ssh_certificate_t;

/* Sign a certificate with the authority's key. *ret_certificate is one line, as in id_*-cert.pub;
 * the caller frees it. 0 | -EINVAL: the public key cannot be certified | -EIO. */
int ssh_certify(const char *authority_private_key_pem, const ssh_certificate_t *certificate,
                char **ret_certificate);
