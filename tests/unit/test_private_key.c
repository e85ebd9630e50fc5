/* Private keys from outside: those whose signatures stay cheap, and no others. */
#include "common/base/private_key.h"

#include <criterion/criterion.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>

Test(private_key, knows_the_kinds_that_tls_uses)
{
    static const struct {
        const char *algorithm, *curve, *want;
    } cases[] = {
        {"EC", "P-256", "ecdsa"},     {"EC", "P-384", "ecdsa"}, {"EC", "P-521", "ecdsa"},
        {"EC", "secp256k1", NULL},    {"EC", "P-224", NULL},    {"EC", "brainpoolP512r1", NULL},
        {"ED25519", NULL, "ed25519"}, {"ED448", NULL, NULL},    {"X25519", NULL, NULL},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        EVP_PKEY *key = cases[i].curve ? EVP_EC_gen(cases[i].curve)
                                       : EVP_PKEY_Q_keygen(NULL, NULL, cases[i].algorithm);
        const char *got;

        cr_assert_not_null(key);
        got = private_key_type(key);
        cr_assert(cases[i].want ? got && !strcmp(got, cases[i].want) : !got, "%s %s: %s",
                  cases[i].algorithm, cases[i].curve ? cases[i].curve : "", got ? got : "none");
        EVP_PKEY_free(key);
    }
}

Test(private_key, bounds_the_size_of_rsa)
{
    static const struct {
        unsigned bits;
        bool want;
    } cases[] = {{1024, false}, {2047, false}, {2048, true}, {3072, true}, {4104, false}};

    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        EVP_PKEY *key = EVP_RSA_gen(cases[i].bits);

        cr_assert_eq(private_key_type(key) != NULL, cases[i].want, "%u bits", cases[i].bits);
        EVP_PKEY_free(key);
    }
}

/* The key with one of its numbers a multiple of what it was: a 90,000 bit exponent in a key of 2,048. */
static EVP_PKEY *with_longer(const EVP_PKEY *key, const char *name)
{
    static const char *const names[] = {
        OSSL_PKEY_PARAM_RSA_N,         OSSL_PKEY_PARAM_RSA_E,
        OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
        OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
        OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    enum { COUNT = sizeof(names) / sizeof(*names) };
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BIGNUM *numbers[COUNT] = {0};
    OSSL_PARAM *params;
    EVP_PKEY *made = NULL;

    for (int i = 0; i < COUNT; i++) {
        cr_assert_eq(EVP_PKEY_get_bn_param(key, names[i], &numbers[i]), 1);
        if (!strcmp(names[i], name))
            cr_assert(BN_lshift(numbers[i], numbers[i], 88000));
        cr_assert(OSSL_PARAM_BLD_push_BN(build, names[i], numbers[i]));
    }
    params = OSSL_PARAM_BLD_to_param(build);
    cr_assert_eq(EVP_PKEY_fromdata_init(ctx), 1);
    cr_assert_eq(EVP_PKEY_fromdata(ctx, &made, EVP_PKEY_KEYPAIR, params), 1);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(ctx);
    for (int i = 0; i < COUNT; i++)
        BN_clear_free(numbers[i]);
    return made;
}

Test(private_key, refuses_numbers_longer_than_a_key_of_that_size_has)
{
    static const char *const names[] = {
        OSSL_PKEY_PARAM_RSA_E,           OSSL_PKEY_PARAM_RSA_D,
        OSSL_PKEY_PARAM_RSA_FACTOR1,     OSSL_PKEY_PARAM_RSA_FACTOR2,
        OSSL_PKEY_PARAM_RSA_EXPONENT1,   OSSL_PKEY_PARAM_RSA_EXPONENT2,
        OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    EVP_PKEY *key = EVP_RSA_gen(2048);

    for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
        EVP_PKEY *longer = with_longer(key, names[i]);

        cr_assert_null(private_key_type(longer), "%s", names[i]);
        EVP_PKEY_free(longer);
    }
    EVP_PKEY_free(key);
}
