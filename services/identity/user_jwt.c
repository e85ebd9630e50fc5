#include "services/identity/user_jwt.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <errno.h>
#include <inttypes.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

enum {
    NUMBER_BYTES = 32, /* of P-256's: coordinates, and both parts of a signature */
    POINT_BYTES = 1 + 2 * NUMBER_BYTES,
    TEXT_SIZE = 44, /* base64url of such a number, or of a SHA-256, with NUL */
    DER_MAX = 80    /* of a signature */
};

#define BASE64 sodium_base64_VARIANT_URLSAFE_NO_PADDING

/* The key of a period. */
typedef struct period_key {
    EVP_PKEY *pkey;
    char x[TEXT_SIZE], y[TEXT_SIZE], kid[TEXT_SIZE];
} period_key_t;

static void period_key_done(period_key_t *self)
{
    EVP_PKEY_free(self->pkey);
}

static void free_bn(BIGNUM **number_p)
{
    BN_clear_free(*number_p);
}

static void free_group(EC_GROUP **group_p)
{
    EC_GROUP_free(*group_p);
}

static void free_point(EC_POINT **point_p)
{
    EC_POINT_free(*point_p);
}

/* ---- keys ---- */

/* 1 to the group's order - 1, evenly: of 512 bits, of which the remainder is taken (FIPS 186-5,
 * A.2.1). NULL: no memory. */
static BIGNUM *derive_number(const secret_key_t *key, int64_t period, const EC_GROUP *group)
{
    _cleanup_(free_bn) BIGNUM *most = BN_dup(EC_GROUP_get0_order(group));
    _cleanup_(free_bn) BIGNUM *wide = NULL;
    unsigned char bytes[2 * 32];
    BIGNUM *number = BN_secure_new();
    BN_CTX *room = BN_CTX_secure_new();
    bool ok;
    char name[40];

    for (int half = 0; half < 2; half++) {
        snprintf(name, sizeof(name), "%" PRId64 ".%d", period, half);
        secret_derive(key, "key that signs JWTs for upstreams", name, bytes + 32 * half);
    }
    wide = BN_bin2bn(bytes, sizeof(bytes), NULL);
    sodium_memzero(bytes, sizeof(bytes));
    ok = number && room && most && wide && BN_sub_word(most, 1) && BN_mod(number, wide, most, room)
         && BN_add_word(number, 1);
    BN_CTX_free(room);
    if (!ok) {
        BN_clear_free(number);
        return NULL;
    }
    BN_set_flags(number, BN_FLG_CONSTTIME);
    return number;
}

static int build_pkey(const BIGNUM *number, const unsigned char *point, EVP_PKEY **ret_pkey)
{
    OSSL_PARAM_BLD *build = OSSL_PARAM_BLD_new();
    EVP_PKEY_CTX *context = EVP_PKEY_CTX_new_from_name(NULL, "EC", NULL);
    OSSL_PARAM *params = NULL;
    bool ok;

    if (build && OSSL_PARAM_BLD_push_utf8_string(build, OSSL_PKEY_PARAM_GROUP_NAME, "prime256v1", 0)
        && OSSL_PARAM_BLD_push_BN(build, OSSL_PKEY_PARAM_PRIV_KEY, number)
        && OSSL_PARAM_BLD_push_octet_string(build, OSSL_PKEY_PARAM_PUB_KEY, point, POINT_BYTES))
        params = OSSL_PARAM_BLD_to_param(build);
    ok = params && context && EVP_PKEY_fromdata_init(context) == 1
         && EVP_PKEY_fromdata(context, ret_pkey, EVP_PKEY_KEYPAIR, params) == 1;
    OSSL_PARAM_free(params);
    EVP_PKEY_CTX_free(context);
    OSSL_PARAM_BLD_free(build);
    return ok ? 0 : fault(-EIO, "make a key of P-256");
}

/* Its coordinates, and the key's id: its thumbprint (RFC 7638). */
static void name_key(period_key_t *self, const unsigned char *point)
{
    unsigned char sum[crypto_hash_sha256_BYTES];
    char text[200];

    sodium_bin2base64(self->x, TEXT_SIZE, point + 1, NUMBER_BYTES, BASE64);
    sodium_bin2base64(self->y, TEXT_SIZE, point + 1 + NUMBER_BYTES, NUMBER_BYTES, BASE64);
    snprintf(text, sizeof(text), "{\"crv\":\"P-256\",\"kty\":\"EC\",\"x\":\"%s\",\"y\":\"%s\"}",
             self->x, self->y);
    crypto_hash_sha256(sum, (const unsigned char *)text, strlen(text));
    sodium_bin2base64(self->kid, TEXT_SIZE, sum, sizeof(sum), BASE64);
}

static int period_key(const secret_key_t *key, int64_t period, period_key_t *out)
{
    _cleanup_(free_group) EC_GROUP *group = EC_GROUP_new_by_curve_name(NID_X9_62_prime256v1);
    _cleanup_(free_point) EC_POINT *place = group ? EC_POINT_new(group) : NULL;
    _cleanup_(free_bn) BIGNUM *number = place ? derive_number(key, period, group) : NULL;
    unsigned char point[POINT_BYTES];

    *out = (period_key_t){0};
    if (!number || EC_POINT_mul(group, place, number, NULL, NULL, NULL) != 1
        || EC_POINT_point2oct(group, place, POINT_CONVERSION_UNCOMPRESSED, point, sizeof(point),
                              NULL)
               != sizeof(point))
        return fault(-ENOMEM, "derive the key that signs JWTs for upstreams");
    name_key(out, point);
    return build_pkey(number, point, &out->pkey);
}

static int64_t period_of(int64_t now_s)
{
    return now_s / USER_JWT_PERIOD_S;
}

int user_jwt_keys(const secret_key_t *key, int64_t now_s, json_t **ret_keys)
{
    _cleanup_(json_clear_ref) json_t *list = json_array();

    for (int64_t period = period_of(now_s) - 1; period <= period_of(now_s) + 1; period++) {
        _cleanup_(period_key_done) period_key_t one;
        int r = period_key(key, period, &one);

        if (r)
            return r;
        json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s}", "kty", "EC",
                                              "crv", "P-256", "use", "sig", "alg", "ES256", "kid",
                                              one.kid, "x", one.x, "y", one.y));
    }
    *ret_keys = json_pack("{s:O}", "keys", list);
    return *ret_keys ? 0 : -ENOMEM;
}

/* ---- what is signed ---- */

static void set_text(json_t *claims, const char *name, const char *text)
{
    if (text && *text)
        json_object_set_new(claims, name, json_string(text));
}

static json_t *claims_of(const user_jwt_t *what, bool with_groups)
{
    const int64_t last = what->now_s + USER_JWT_LASTS_S;
    json_t *claims =
        json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", what->issuer, "aud", what->audience, "sub",
                  what->subject, "iat", (json_int_t)what->now_s, "exp",
                  (json_int_t)(what->expires_s < last ? what->expires_s : last));

    if (!claims)
        return NULL;
    set_text(claims, "sid", what->session);
    set_text(claims, "name", what->person->name);
    set_text(claims, "email", what->person->email);
    if (json_object_get(claims, "email"))
        json_object_set_new(claims, "email_verified", json_boolean(what->person->email_verified));
    if (with_groups && json_array_size(what->person->groups))
        json_object_set(claims, "groups", what->person->groups);
    return claims;
}

/* Base64url of the JSON, at the end of text. */
static bool append_json(char *text, size_t size, const json_t *object)
{
    char *json = object ? json_dumps(object, JSON_COMPACT) : NULL;
    size_t used = strlen(text);
    size_t needs = json ? sodium_base64_ENCODED_LEN(strlen(json), BASE64) : 0;
    bool fits = json && needs <= size - used;

    if (fits)
        sodium_bin2base64(text + used, size - used, (const unsigned char *)json, strlen(json),
                          BASE64);
    free(json);
    return fits;
}

/* Both parts of the signature side by side (RFC 7518, 3.4). */
static bool flatten(const unsigned char *der, size_t len, unsigned char out[2 * NUMBER_BYTES])
{
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &der, (long)len);
    bool ok =
        pair && BN_bn2binpad(ECDSA_SIG_get0_r(pair), out, NUMBER_BYTES) == NUMBER_BYTES
        && BN_bn2binpad(ECDSA_SIG_get0_s(pair), out + NUMBER_BYTES, NUMBER_BYTES) == NUMBER_BYTES;

    ECDSA_SIG_free(pair);
    return ok;
}

/* Sign what the text has, and append the signature. */
static int append_signature(char *text, size_t size, EVP_PKEY *pkey)
{
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    unsigned char der[DER_MAX], flat[2 * NUMBER_BYTES];
    size_t len = sizeof(der), used = strlen(text);
    bool ok = context && EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, pkey, NULL) == 1
              && EVP_DigestSign(context, der, &len, (const unsigned char *)text, used) == 1
              && flatten(der, len, flat);

    EVP_MD_CTX_free(context);
    if (!ok)
        return fault(-EIO, "sign a JWT");
    if (used + 1 + sodium_base64_ENCODED_LEN(sizeof(flat), BASE64) > size)
        return -EMSGSIZE;
    text[used++] = '.';
    sodium_bin2base64(text + used, size - used, flat, sizeof(flat), BASE64);
    return 0;
}

static int write_jwt(const user_jwt_t *what, const period_key_t *key, bool with_groups, char *text,
                     size_t size)
{
    _cleanup_(json_clear_ref) json_t *claims = claims_of(what, with_groups);
    _cleanup_(json_clear_ref) json_t *header =
        json_pack("{s:s, s:s, s:s}", "alg", "ES256", "kid", key->kid, "typ", "JWT");

    if (!claims || !header)
        return -ENOMEM;
    text[0] = '\0';
    if (!append_json(text, size, header))
        return -EMSGSIZE;
    strncat(text, ".", size - strlen(text) - 1);
    return append_json(text, size, claims) ? append_signature(text, size, key->pkey) : -EMSGSIZE;
}

int user_jwt_make(const secret_key_t *key, const user_jwt_t *what, char **ret_text)
{
    _cleanup_(free_mem) char *text = malloc(USER_JWT_MAX + 1);
    _cleanup_(period_key_done) period_key_t own = {0};
    int r = text ? period_key(key, period_of(what->now_s), &own) : -ENOMEM;

    if (!r)
        r = write_jwt(what, &own, true, text, USER_JWT_MAX + 1);
    if (r == -EMSGSIZE)
        r = write_jwt(what, &own, false, text, USER_JWT_MAX + 1);
    if (!r)
        *ret_text = take(text);
    return r;
}
