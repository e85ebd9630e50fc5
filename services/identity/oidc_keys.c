/* Key sets of providers, and signatures that their keys verify (RFC 7517, 7518, 8037). OpenSSL
 * alone: Debian's cjose has no EdDSA. A key is only ever used for the algorithms of its own type,
 * so what a token says of its algorithm chooses among public keys and nothing else. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/param_build.h>
#include <openssl/rsa.h>
#include <string.h>

enum { RSA_BYTES_MIN = 2048 / 8, RSA_BYTES_MAX = 8192 / 8, EXPONENT_BYTES_MAX = 8 };

static const oidc_algorithm_t algorithms[] = {
    {"RS256", "RSA", NULL, "SHA256", false, 0},
    {"RS384", "RSA", NULL, "SHA384", false, 0},
    {"RS512", "RSA", NULL, "SHA512", false, 0},
    {"PS256", "RSA", NULL, "SHA256", true, 0},
    {"PS384", "RSA", NULL, "SHA384", true, 0},
    {"PS512", "RSA", NULL, "SHA512", true, 0},
    {"ES256", "EC", "P-256", "SHA256", false, 64},
    {"ES384", "EC", "P-384", "SHA384", false, 96},
    {"ES512", "EC", "P-521", "SHA512", false, 132},
    {"EdDSA", "OKP", "Ed25519", "SHA512", false, 64},
};

/* Texts are the set's. */
typedef struct key {
    const json_t *members;
    const char *kty, *crv, *kid, *alg; /* crv, kid and alg: NULL where it has none */
} jwk_t;

struct oidc_keys {
    json_t *document;
    size_t count;
    jwk_t keys[OIDC_KEY_COUNT];
};

const oidc_algorithm_t *oidc_algorithm_find(const char *name)
{
    for (size_t i = 0; i < LEN(algorithms); i++)
        if (!strcmp(algorithms[i].name, name))
            return &algorithms[i];
    return NULL;
}

/* ---- sets ---- */

/* A member that may be absent, but is a text of at most max bytes where it is there. */
static bool take_text(const json_t *members, const char *name, size_t max, const char **ret_text)
{
    *ret_text = oidc_text(members, name, max);
    return *ret_text || !json_object_get(members, name);
}

/* Is it a public key that may verify signatures, as far as it says so itself? */
static bool take_key(jwk_t *self, const json_t *members)
{
    const char *use;

    *self = (jwk_t){.members = members};
    if (!take_text(members, "kty", OIDC_KID_MAX, &self->kty) || !self->kty
        || !take_text(members, "crv", OIDC_KID_MAX, &self->crv)
        || !take_text(members, "kid", OIDC_KID_MAX, &self->kid)
        || !take_text(members, "alg", OIDC_KID_MAX, &self->alg)
        || !take_text(members, "use", OIDC_KID_MAX, &use) || (use && strcmp(use, "sig") != 0))
        return false;
    if (json_object_get(members, "key_ops") && !oidc_lists(members, "key_ops", "verify"))
        return false;
    for (size_t i = 0; i < LEN(algorithms); i++)
        if (!strcmp(self->kty, algorithms[i].kty)
            && (!algorithms[i].crv || (self->crv && !strcmp(self->crv, algorithms[i].crv)))
            && (!self->alg || !strcmp(self->alg, algorithms[i].name)))
            return true;
    return false;
}

const char *oidc_keys_read(oidc_keys_t **ret_keys, const char *text, size_t len)
{
    oidc_keys_t *self = memory_new(sizeof(*self), "a key set");
    const char *fault = NULL;
    const json_t *list, *item;
    size_t i;

    self->document = len <= OIDC_KEYS_MAX ? oidc_json(text, len) : NULL;
    list = json_object_get(self->document, "keys");
    if (!self->document)
        fault = "the key set is no JSON object, or beyond the limits";
    else if (!json_is_array(list))
        fault = "keys of the key set is no list";
    else if (json_array_size(list) > OIDC_KEY_COUNT)
        fault = "the key set has more than 100 keys";
    json_array_foreach(list, i, item)
    {
        if (!fault && !json_is_object(item))
            fault = "the key set has a key that is no object";
        else if (!fault && take_key(&self->keys[self->count], item))
            self->count++;
    }
    if (!fault && !self->count)
        fault = "the key set has no key that can verify a signature";
    if (fault)
        oidc_keys_free(&self);
    *ret_keys = self;
    return fault;
}

void oidc_keys_free(oidc_keys_t **self_p)
{
    oidc_keys_t *self = take(*self_p);

    if (!self)
        return;
    json_decref(self->document);
    free(self);
}

/* ---- keys ---- */

/* A member's bytes; the caller frees them. NULL: it is not base64url of that many. */
static unsigned char *bytes_of(const jwk_t *key, const char *name, size_t min, size_t max,
                               size_t *ret_len)
{
    const json_t *value = json_object_get(key->members, name);
    unsigned char *bytes =
        oidc_base64url(json_string_value(value), json_string_length(value), ret_len);

    if (bytes && (*ret_len < min || *ret_len > max))
        free_mem(&bytes);
    return bytes;
}

static EVP_PKEY *key_make(const char *type, OSSL_PARAM_BLD *build)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(build);
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *key = NULL;

    if (params && context && EVP_PKEY_fromdata_init(context) == 1
        && EVP_PKEY_fromdata(context, &key, EVP_PKEY_PUBLIC_KEY, params) != 1)
        key = NULL;
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_free(params);
    return key;
}

/* The modulus is odd and has no zeros in front, the exponent is odd and above 1: else anybody can
 * make a signature. */
static EVP_PKEY *rsa_key(const jwk_t *jwk)
{
    size_t n_len = 0, e_len = 0;
    _cleanup_(free_mem) unsigned char *n = bytes_of(jwk, "n", RSA_BYTES_MIN, RSA_BYTES_MAX, &n_len);
    _cleanup_(free_mem) unsigned char *e = bytes_of(jwk, "e", 1, EXPONENT_BYTES_MAX, &e_len);
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    BIGNUM *modulus, *exponent;
    EVP_PKEY *key = NULL;

    if (n && e && build && (n[0] & 0x80) && (n[n_len - 1] & 1) && e[0] && (e[e_len - 1] & 1)
        && !(e_len == 1 && e[0] == 1)) {
        modulus = BN_bin2bn(n, (int)n_len, NULL);
        exponent = BN_bin2bn(e, (int)e_len, NULL);
        if (modulus && exponent
            && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_N, modulus) == 1
            && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_RSA_E, exponent) == 1)
            key = key_make("RSA", build);
        BN_free(modulus);
        BN_free(exponent);
    }
    OSSL_PARAM_BLD_free(build);
    return key;
}

/* OpenSSL refuses a point that is not on the curve. The curves have no small subgroups. */
static EVP_PKEY *ec_key(const jwk_t *jwk, size_t signature)
{
    size_t half = signature / 2, x_len = 0, y_len = 0;
    _cleanup_(free_mem) unsigned char *x = bytes_of(jwk, "x", half, half, &x_len);
    _cleanup_(free_mem) unsigned char *y = bytes_of(jwk, "y", half, half, &y_len);
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    unsigned char point[1 + 132] = {POINT_CONVERSION_UNCOMPRESSED};
    EVP_PKEY *key = NULL;

    if (x && y && build) {
        memcpy(point + 1, x, half);
        memcpy(point + 1 + half, y, half);
        if (OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, jwk->crv, 0) == 1
            && OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, 1 + 2 * half)
                   == 1)
            key = key_make("EC", build);
    }
    OSSL_PARAM_BLD_free(build);
    return key;
}

static EVP_PKEY *ed25519_key(const jwk_t *jwk)
{
    size_t len = 0;
    _cleanup_(free_mem) unsigned char *x = bytes_of(jwk, "x", 32, 32, &len);

    return x ? EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, x, len) : NULL;
}

static EVP_PKEY *key_of(const jwk_t *jwk, const oidc_algorithm_t *algorithm)
{
    if (!strcmp(algorithm->kty, "RSA"))
        return rsa_key(jwk);
    return !strcmp(algorithm->kty, "EC") ? ec_key(jwk, algorithm->signature) : ed25519_key(jwk);
}

/* ---- signatures ---- */

/* R and S side by side (RFC 7518 3.4) as OpenSSL takes them, in DER. */
static unsigned char *der_of(const unsigned char *signature, size_t len, size_t *ret_len)
{
    ECDSA_SIG *pair = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(signature, (int)(len / 2), NULL);
    BIGNUM *s = BN_bin2bn(signature + len / 2, (int)(len / 2), NULL);
    unsigned char *der = NULL;
    int bytes = -1;

    if (pair && r && s && ECDSA_SIG_set0(pair, r, s) == 1) {
        r = s = NULL;
        bytes = i2d_ECDSA_SIG(pair, &der);
    }
    *ret_len = bytes > 0 ? (size_t)bytes : 0;
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(pair);
    return der;
}

static bool set_padding(EVP_PKEY_CTX *context, const oidc_algorithm_t *algorithm)
{
    if (strcmp(algorithm->kty, "RSA") != 0)
        return true;
    if (!algorithm->is_pss)
        return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PADDING) == 1;
    return EVP_PKEY_CTX_set_rsa_padding(context, RSA_PKCS1_PSS_PADDING) == 1
           && EVP_PKEY_CTX_set_rsa_pss_saltlen(context, RSA_PSS_SALTLEN_DIGEST) == 1;
}

static bool key_verifies(EVP_PKEY *key, const oidc_algorithm_t *algorithm, const char *data,
                         size_t len, const unsigned char *signature, size_t signature_len)
{
    bool is_ec = !strcmp(algorithm->kty, "EC"), is_okp = !strcmp(algorithm->kty, "OKP");
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *of_key = NULL;
    unsigned char *der = NULL;
    bool good = false;
    size_t want = algorithm->signature ? algorithm->signature : (size_t)EVP_PKEY_get_size(key);

    if (context && signature_len == want) {
        if (is_ec)
            der = der_of(signature, signature_len, &signature_len);
        good = (!is_ec || der)
               && EVP_DigestVerifyInit_ex(context, &of_key, is_okp ? NULL : algorithm->digest, NULL,
                                          NULL, key, NULL)
                      == 1
               && set_padding(of_key, algorithm)
               && EVP_DigestVerify(context, der ? der : signature, signature_len,
                                   (const unsigned char *)data, len)
                      == 1;
    }
    OPENSSL_free(der);
    EVP_MD_CTX_free(context);
    return good;
}

static bool key_fits(const jwk_t *key, const oidc_algorithm_t *algorithm, const char *kid)
{
    return !strcmp(key->kty, algorithm->kty)
           && (!algorithm->crv || (key->crv && !strcmp(key->crv, algorithm->crv)))
           && (!key->alg || !strcmp(key->alg, algorithm->name))
           && (!kid || (key->kid && !strcmp(key->kid, kid)));
}

oidc_verdict_t oidc_keys_verify(const oidc_keys_t *self, const oidc_algorithm_t *algorithm,
                                const char *kid, const char *data, size_t len,
                                const unsigned char *signature, size_t signature_len)
{
    oidc_verdict_t verdict = OIDC_NO_KEY;
    int tries = 0;

    for (size_t i = 0; i < self->count && verdict != OIDC_VERIFIED && tries < OIDC_KEY_TRIES; i++) {
        EVP_PKEY *key;

        if (!key_fits(&self->keys[i], algorithm, kid))
            continue;
        tries++;
        key = key_of(&self->keys[i], algorithm);
        if (key)
            verdict = key_verifies(key, algorithm, data, len, signature, signature_len)
                          ? OIDC_VERIFIED
                          : OIDC_FORGED;
        EVP_PKEY_free(key);
    }
    ERR_clear_error();
    return verdict;
}
