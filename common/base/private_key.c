#include "common/base/private_key.h"
#include "common/base/cleanup.h"

#include <openssl/core_names.h>
#include <openssl/bn.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/obj_mac.h>
#include <openssl/objects.h>

enum {
    EXPONENT_BITS = 64 /* of a public exponent: OpenSSL verifies no longer one with large keys */
};

/* Has the key this number, and at most so many bits of it? */
static bool number_fits(const EVP_PKEY *key, const char *name, int bits)
{
    BIGNUM *number = NULL;
    bool fits = EVP_PKEY_get_bn_param(key, name, &number) == 1 && BN_num_bits(number) <= bits;

    BN_clear_free(number);
    return fits;
}

/* OpenSSL computes with the numbers as they stand in the file, however long they are, and when the
 * result of the short way is wrong once more with the private exponent. */
static bool rsa_is_bounded(const EVP_PKEY *key)
{
    static const char *const halves[] = {
        OSSL_PKEY_PARAM_RSA_FACTOR1, OSSL_PKEY_PARAM_RSA_FACTOR2, OSSL_PKEY_PARAM_RSA_EXPONENT1,
        OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    BIGNUM *third = NULL;
    int bits = EVP_PKEY_get_bits(key);

    if (bits < PRIVATE_KEY_RSA_MIN || bits > PRIVATE_KEY_RSA_MAX)
        return false;
    for (size_t i = 0; i < sizeof(halves) / sizeof(*halves); i++)
        if (!number_fits(key, halves[i], (bits + 1) / 2 + 1))
            return false;
    if (EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_FACTOR3, &third) == 1) {
        BN_clear_free(third);
        return false;
    }
    return number_fits(key, OSSL_PKEY_PARAM_RSA_D, bits)
           && number_fits(key, OSSL_PKEY_PARAM_RSA_E, EXPONENT_BITS);
}

/* The numbers of a key (RFC 8017 A.1.2), and room to compute. */
typedef struct rsa {
    BIGNUM *n, *e, *d, *p, *q, *dp, *dq, *qinv;
    BN_CTX *ctx;
} rsa_t;

static void rsa_done(rsa_t *self)
{
    BIGNUM *const numbers[] = {self->n, self->e,  self->d,  self->p,
                               self->q, self->dp, self->dq, self->qinv};

    for (size_t i = 0; i < LEN(numbers); i++)
        BN_clear_free(numbers[i]);
    BN_CTX_free(self->ctx);
}

/* False: a number is missing, or there is no memory. */
static bool rsa_init(rsa_t *self, const EVP_PKEY *key)
{
    *self = (rsa_t){.ctx = BN_CTX_secure_new()};
    return self->ctx && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &self->n) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &self->e) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_D, &self->d) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_FACTOR1, &self->p) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_FACTOR2, &self->q) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_EXPONENT1, &self->dp) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_EXPONENT2, &self->dq) == 1
           && EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_COEFFICIENT1, &self->qinv) == 1;
}

/* Is a * b = 1 modulo m? less 1: modulo m - 1. */
static bool is_inverse(const rsa_t *self, const BIGNUM *a, const BIGNUM *b, const BIGNUM *m,
                       BN_ULONG less)
{
    BIGNUM *modulus = BN_secure_new(), *product = BN_secure_new();
    bool is = modulus && product && BN_copy(modulus, m) && BN_sub_word(modulus, less)
              && BN_mod_mul(product, a, b, modulus, self->ctx) && BN_is_one(product);

    BN_clear_free(modulus);
    BN_clear_free(product);
    return is;
}

static bool is_product(const rsa_t *self)
{
    BIGNUM *product = BN_secure_new();
    bool is =
        product && BN_mul(product, self->p, self->q, self->ctx) && BN_cmp(product, self->n) == 0;

    BN_clear_free(product);
    return is;
}

/* Does a number to the power of the private, then of the public exponent come back? It does for
 * every number where the factor is a prime (RFC 8017 5.1). */
static bool power_comes_back(const rsa_t *self, const BIGNUM *factor, BIGNUM *exponent)
{
    BIGNUM *number = BN_secure_new(), *power = BN_secure_new();
    bool comes = number && power && BN_priv_rand_range(number, factor);

    BN_set_flags(exponent, BN_FLG_CONSTTIME);
    comes = comes && BN_mod_exp(power, number, exponent, factor, self->ctx)
            && BN_mod_exp(power, power, self->e, factor, self->ctx) && BN_cmp(power, number) == 0;
    BN_clear_free(number);
    BN_clear_free(power);
    return comes;
}

static const char *rsa_fault(const rsa_t *self, int trials)
{
    const BIGNUM *const positive[] = {self->n, self->e,  self->d,  self->p,
                                      self->q, self->dp, self->dq, self->qinv};

    for (size_t i = 0; i < LEN(positive); i++)
        if (BN_is_zero(positive[i]) || BN_is_negative(positive[i]))
            return "each of its numbers must be positive";
    if (!BN_is_odd(self->p) || !BN_is_odd(self->q) || BN_is_one(self->p) || BN_is_one(self->q))
        return "prime1 and prime2 must be primes";
    if (!is_product(self))
        return "modulus must be prime1 times prime2";
    if (!is_inverse(self, self->e, self->d, self->p, 1)
        || !is_inverse(self, self->e, self->d, self->q, 1))
        return "privateExponent must be the inverse of publicExponent";
    if (BN_cmp(self->dp, self->p) >= 0 || !is_inverse(self, self->e, self->dp, self->p, 1))
        return "exponent1 must be privateExponent modulo prime1 - 1";
    if (BN_cmp(self->dq, self->q) >= 0 || !is_inverse(self, self->e, self->dq, self->q, 1))
        return "exponent2 must be privateExponent modulo prime2 - 1";
    if (BN_cmp(self->qinv, self->p) >= 0 || !is_inverse(self, self->q, self->qinv, self->p, 0))
        return "coefficient must be the inverse of prime2 modulo prime1";
    for (int i = 0; i < trials; i++)
        if (!power_comes_back(self, self->p, self->dp)
            || !power_comes_back(self, self->q, self->dq))
            return "prime1 and prime2 must be primes";
    return NULL;
}

const char *private_key_fault(const EVP_PKEY *key, int trials)
{
    const char *fault = "its numbers cannot be read";
    rsa_t rsa;

    if (EVP_PKEY_get_base_id(key) != EVP_PKEY_RSA)
        return NULL;
    if (rsa_init(&rsa, key))
        fault = rsa_fault(&rsa, trials);
    rsa_done(&rsa);
    ERR_clear_error();
    return fault;
}

/* A curve that TLS has a name for; others may have parameters of any size. */
static bool curve_is_known(const EVP_PKEY *key)
{
    char name[64];
    size_t len;

    if (EVP_PKEY_get_group_name(key, name, sizeof(name), &len) != 1)
        return false;
    switch (OBJ_txt2nid(name)) {
    case NID_X9_62_prime256v1:
    case NID_secp384r1:
    case NID_secp521r1:
        return true;
    default:
        return false;
    }
}

const char *private_key_type(const EVP_PKEY *key)
{
    switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_RSA:
        return rsa_is_bounded(key) ? "rsa" : NULL;
    case EVP_PKEY_EC:
        return curve_is_known(key) && number_fits(key, OSSL_PKEY_PARAM_PRIV_KEY, 528) ? "ecdsa"
                                                                                      : NULL;
    case EVP_PKEY_ED25519:
        return "ed25519";
    default:
        return NULL;
    }
}
