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

/* A key of these numbers, as they are. */
static EVP_PKEY *key_of(BIGNUM *const numbers[8])
{
    static const char *const names[] = {
        OSSL_PKEY_PARAM_RSA_N,         OSSL_PKEY_PARAM_RSA_E,
        OSSL_PKEY_PARAM_RSA_D,         OSSL_PKEY_PARAM_RSA_FACTOR1,
        OSSL_PKEY_PARAM_RSA_FACTOR2,   OSSL_PKEY_PARAM_RSA_EXPONENT1,
        OSSL_PKEY_PARAM_RSA_EXPONENT2, OSSL_PKEY_PARAM_RSA_COEFFICIENT1};
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, "RSA", NULL);
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    OSSL_PARAM *params;
    EVP_PKEY *made = NULL;

    for (size_t i = 0; i < 8; i++)
        cr_assert(OSSL_PARAM_BLD_push_BN(build, names[i], numbers[i]));
    params = OSSL_PARAM_BLD_to_param(build);
    cr_assert_eq(EVP_PKEY_fromdata_init(ctx), 1);
    cr_assert_eq(EVP_PKEY_fromdata(ctx, &made, EVP_PKEY_KEYPAIR, params), 1);
    OSSL_PARAM_free(params);
    OSSL_PARAM_BLD_free(build);
    EVP_PKEY_CTX_free(ctx);
    return made;
}

/* All numbers of a key with these factors, whether they are primes or not. */
static void fill(BIGNUM *numbers[8], const BIGNUM *p, const BIGNUM *q)
{
    BIGNUM *p1 = BN_dup(p), *q1 = BN_dup(q), *phi = BN_new();
    BN_CTX *ctx = BN_CTX_new();

    BN_sub_word(p1, 1);
    BN_sub_word(q1, 1);
    BN_mul(phi, p1, q1, ctx);
    for (int i = 0; i < 8; i++)
        numbers[i] = BN_new();
    BN_mul(numbers[0], p, q, ctx);
    BN_set_word(numbers[1], 65537);
    cr_assert(BN_mod_inverse(numbers[2], numbers[1], phi, ctx));
    BN_copy(numbers[3], p);
    BN_copy(numbers[4], q);
    BN_mod(numbers[5], numbers[2], p1, ctx);
    BN_mod(numbers[6], numbers[2], q1, ctx);
    cr_assert(BN_mod_inverse(numbers[7], q, p, ctx));
    BN_free(p1);
    BN_free(q1);
    BN_free(phi);
    BN_CTX_free(ctx);
}

static void free_all(BIGNUM *numbers[8])
{
    for (int i = 0; i < 8; i++)
        BN_free(numbers[i]);
}

static BIGNUM *prime(int bits)
{
    BIGNUM *made = BN_new();

    cr_assert(BN_generate_prime_ex(made, bits, 0, NULL, NULL, NULL));
    return made;
}

Test(private_key, says_which_numbers_of_rsa_do_not_belong_together)
{
    static const struct {
        int number; /* that is changed, of the order in key_of */
        const char *want;
    } cases[] = {{0, "modulus"},   {2, "privateExponent"}, {3, "modulus"},    {4, "modulus"},
                 {5, "exponent1"}, {6, "exponent2"},       {7, "coefficient"}};
    BIGNUM *numbers[8], *p = prime(1024), *q = prime(1024);
    EVP_PKEY *key;

    fill(numbers, p, q);
    key = key_of(numbers);
    cr_assert_null(private_key_fault(key, PRIVATE_KEY_TRIALS));
    EVP_PKEY_free(key);
    for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
        const char *fault;

        BN_add_word(numbers[cases[i].number], 2);
        key = key_of(numbers);
        BN_sub_word(numbers[cases[i].number], 2);
        fault = private_key_fault(key, 0);
        cr_assert(fault && !strncmp(fault, cases[i].want, strlen(cases[i].want)), "%s: %s",
                  cases[i].want, fault ? fault : "none");
        EVP_PKEY_free(key);
    }
    free_all(numbers);
    BN_free(p);
    BN_free(q);
}

Test(private_key, tries_whether_factors_are_primes)
{
    BIGNUM *numbers[8], *a = prime(512), *b = prime(512), *p = BN_new(), *q = prime(1024);
    BN_CTX *ctx = BN_CTX_new();
    EVP_PKEY *key;

    BN_mul(p, a, b, ctx); /* the rules that need no trial hold for it */
    fill(numbers, p, q);
    key = key_of(numbers);
    cr_assert_null(private_key_fault(key, 0));
    cr_assert_str_eq(private_key_fault(key, PRIVATE_KEY_TRIALS),
                     "prime1 and prime2 must be primes");
    EVP_PKEY_free(key);
    free_all(numbers);
    BN_free(a);
    BN_free(b);
    BN_free(p);
    BN_free(q);
    BN_CTX_free(ctx);
}

Test(private_key, of_other_kinds_has_no_such_rule)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");

    cr_assert_null(private_key_fault(key, PRIVATE_KEY_TRIALS));
    EVP_PKEY_free(key);
}
