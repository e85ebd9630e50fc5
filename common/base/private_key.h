/* Private keys of certificates, which come from users: what a signature with one costs. The edge
 * signs in its event loop, so a key whose numbers are too long would stop a worker for
 * everybody. */
#pragma once

#include <openssl/evp.h>
#include <stdbool.h>

enum { PRIVATE_KEY_RSA_MIN = 2048, PRIVATE_KEY_RSA_MAX = 4096 /* bits */ };

/* What kind of key it is: "rsa" (2,048 to 4,096 bits, of two primes, no number of it longer than
 * a key of that size has), "ecdsa" (P-256, P-384, P-521) or "ed25519". NULL: any other, or no
 * private key. The numbers are not proven to be a key: that takes longer than a signature. */
const char *private_key_type(const EVP_PKEY *key);
