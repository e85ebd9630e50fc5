/* Private keys of certificates, which come from users: what a signature with one costs. The edge
 * signs in its event loop, so a key whose numbers are too long would stop a worker for
 * everybody. */
#pragma once

#include <openssl/evp.h>
#include <stdbool.h>

enum {
    PRIVATE_KEY_RSA_MIN = 2048,
    PRIVATE_KEY_RSA_MAX = 4096, /* bits */
    PRIVATE_KEY_TRIALS = 8      /* of private_key_fault at an upload, which has the time */
};

/* What kind of key it is: "rsa" (2,048 to 4,096 bits, of two primes, no number of it longer than
 * a key of that size has), "ecdsa" (P-256, P-384, P-521) or "ed25519". NULL: any other, or no
 * private key. */
const char *private_key_type(const EVP_PKEY *key);

/* Do the numbers of an RSA key of that type belong together? OpenSSL computes the short way, with
 * the two primes, and where the result is wrong once more with the private exponent, which takes
 * five times as long. Each trial computes one number the short way, which takes as long as a
 * signature: it finds factors that are no primes. NULL: they do, or it is no RSA key; else the rule
 * that they break. Never the number itself. */
const char *private_key_fault(const EVP_PKEY *key, int trials);
