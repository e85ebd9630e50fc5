#include "common/base/private_key.h"

#include <openssl/core_names.h>
#include <openssl/ec.h>
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
