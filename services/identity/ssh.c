#include "services/identity/ssh.h"
#include "common/base/memory.h"
#include "common/base/cleanup.h"

#include <errno.h>
#include <openssl/bio.h>
#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sodium.h>
#include <string.h>

enum { BLOB_MAX = 8192, NONCE_LEN = 32, TYPE_USER = 1, TYPE_HOST = 2 };

/* Key algorithms: their names on the wire and in OpenSSL, and the digest that they sign with. */
static const struct algorithm {
    const char *wire, *type, *curve, *group, *digest;
} algorithms[] = {
    {"ssh-ed25519", "ed25519", NULL, NULL, NULL},
    {"ecdsa-sha2-nistp256", "ecdsa", "nistp256", "P-256", "SHA256"},
    {"ecdsa-sha2-nistp384", "ecdsa", "nistp384", "P-384", "SHA384"},
    {"ecdsa-sha2-nistp521", "ecdsa", "nistp521", "P-521", "SHA512"},
    {"ssh-rsa", "rsa", NULL, NULL, "SHA512"},
};

static void bio_clear(BIO **p)
{
    BIO_free(*p);
}

static void pkey_clear(EVP_PKEY **p)
{
    EVP_PKEY_free(*p);
}

static void bn_clear(BIGNUM **p)
{
    BN_free(*p);
}

static void md_clear(EVP_MD_CTX **p)
{
    EVP_MD_CTX_free(*p);
}

static const struct algorithm *algorithm_of(const char *public_key)
{
    size_t len = strcspn(public_key, " \t");

    for (size_t i = 0; i < LEN(algorithms); i++)
        if (strlen(algorithms[i].wire) == len && !strncmp(algorithms[i].wire, public_key, len))
            return &algorithms[i];
    return NULL;
}

const char *ssh_key_type(const char *public_key)
{
    const struct algorithm *algorithm = algorithm_of(public_key);

    return algorithm ? algorithm->type : NULL;
}

/* ---- RFC 4251 5 ---- */

static void put_u32(BIO *out, uint32_t value)
{
    unsigned char bytes[4] = {(unsigned char)(value >> 24), (unsigned char)(value >> 16),
                              (unsigned char)(value >> 8), (unsigned char)value};

    BIO_write(out, bytes, 4);
}

static void put_u64(BIO *out, uint64_t value)
{
    put_u32(out, (uint32_t)(value >> 32));
    put_u32(out, (uint32_t)value);
}

static void put_bytes(BIO *out, const void *data, size_t len)
{
    put_u32(out, (uint32_t)len);
    BIO_write(out, data, (int)len);
}

static void put_text(BIO *out, const char *text)
{
    put_bytes(out, text, strlen(text));
}

static void put_bio(BIO *out, BIO *inner)
{
    char *data;
    long len = BIO_get_mem_data(inner, &data);

    put_bytes(out, data, (size_t)len);
}

/* An mpint of a positive number: a zero byte in front where the highest bit is set. */
static void put_mpint(BIO *out, const BIGNUM *number)
{
    unsigned char bytes[1 + 1024] = {0};
    int len = BN_bn2bin(number, bytes + 1), lead = len > 0 && bytes[1] & 0x80;

    put_bytes(out, bytes + 1 - lead, (size_t)len + (size_t)lead);
}

static char *base64_text(BIO *blob)
{
    char *data, *out;
    long len = BIO_get_mem_data(blob, &data);
    size_t size = sodium_base64_encoded_len((size_t)len, sodium_base64_VARIANT_ORIGINAL);

    out = malloc(size);
    if (out)
        sodium_bin2base64(out, size, (unsigned char *)data, (size_t)len,
                          sodium_base64_VARIANT_ORIGINAL);
    return out;
}

/* ---- keys ---- */

static const struct algorithm *algorithm_of_key(EVP_PKEY *key)
{
    char group[32] = "";

    if (EVP_PKEY_is_a(key, "ED25519"))
        return &algorithms[0];
    if (EVP_PKEY_is_a(key, "RSA"))
        return &algorithms[LEN(algorithms) - 1];
    EVP_PKEY_get_group_name(key, group, sizeof(group), NULL);
    for (size_t i = 0; i < LEN(algorithms); i++)
        if (algorithms[i].group && OBJ_txt2nid(group) == EC_curve_nist2nid(algorithms[i].group))
            return &algorithms[i];
    return NULL;
}

/* Append the public key's wire form. 0 | -EIO. */
static int put_public(BIO *out, EVP_PKEY *key)
{
    const struct algorithm *algorithm = algorithm_of_key(key);
    _cleanup_(bn_clear) BIGNUM *e = NULL;
    _cleanup_(bn_clear) BIGNUM *n = NULL;
    unsigned char point[256];
    size_t len = sizeof(point);

    if (!algorithm)
        return -EIO;
    put_text(out, algorithm->wire);
    if (!strcmp(algorithm->type, "ed25519")) {
        if (!EVP_PKEY_get_raw_public_key(key, point, &len))
            return -EIO;
        put_bytes(out, point, len);
    } else if (!strcmp(algorithm->type, "ecdsa")) {
        if (!EVP_PKEY_get_octet_string_param(key, OSSL_PKEY_PARAM_ENCODED_PUBLIC_KEY, point,
                                             sizeof(point), &len))
            return -EIO;
        put_text(out, algorithm->curve);
        put_bytes(out, point, len);
    } else {
        if (!EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_E, &e)
            || !EVP_PKEY_get_bn_param(key, OSSL_PKEY_PARAM_RSA_N, &n))
            return -EIO;
        put_mpint(out, e);
        put_mpint(out, n);
    }
    return 0;
}

static EVP_PKEY *generate_key(const char *type, const char *curve, int bits)
{
    char group[8];

    if (!strcmp(type, "ed25519"))
        return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (!strcmp(type, "rsa"))
        return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)bits);
    snprintf(group, sizeof(group), "P-%.3s", curve + 1);
    return EVP_PKEY_Q_keygen(NULL, NULL, "EC", group);
}

int ssh_make_key(const char *type, const char *curve, int bits, char **ret_public_key,
                 char **ret_private_key_pem)
{
    _cleanup_(pkey_clear) EVP_PKEY *key = generate_key(type, curve, bits);
    _cleanup_(bio_clear) BIO *pem = BIO_new(BIO_s_secmem());
    _cleanup_(bio_clear) BIO *blob = BIO_new(BIO_s_mem());
    _cleanup_(free_mem) char *text = NULL;
    char *data;
    long len;

    if (!key || put_public(blob, key)
        || !PEM_write_bio_PrivateKey(pem, key, NULL, NULL, 0, NULL, NULL)) {
        ERR_clear_error();
        return fault(-EIO, "make an SSH key");
    }
    text = base64_text(blob);
    if (!text || asprintf(ret_public_key, "%s %s", algorithm_of_key(key)->wire, text) < 0)
        return -ENOMEM;
    len = BIO_get_mem_data(pem, &data);
    *ret_private_key_pem = strndup(data, (size_t)len);
    return *ret_private_key_pem ? 0 : -ENOMEM;
}

/* ---- certificates ---- */

/* Append an ECDSA signature: DER's two numbers as two mpints (RFC 5656 3.1.2). */
static int put_ecdsa(BIO *out, const unsigned char *der, size_t len)
{
    _cleanup_(bio_clear) BIO *pair = BIO_new(BIO_s_mem());
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &der, (long)len);

    if (!sig)
        return -EIO;
    put_mpint(pair, ECDSA_SIG_get0_r(sig));
    put_mpint(pair, ECDSA_SIG_get0_s(sig));
    ECDSA_SIG_free(sig);
    put_bio(out, pair);
    return 0;
}

static int put_signature(BIO *out, EVP_PKEY *key, BIO *signed_part)
{
    const struct algorithm *algorithm = algorithm_of_key(key);
    bool rsa = algorithm && !strcmp(algorithm->type, "rsa");
    _cleanup_(md_clear) EVP_MD_CTX *md = EVP_MD_CTX_new();
    _cleanup_(bio_clear) BIO *inner = BIO_new(BIO_s_mem());
    unsigned char sig[1024], *data;
    size_t len = sizeof(sig);
    long data_len = BIO_get_mem_data(signed_part, &data);

    if (!algorithm || EVP_DigestSignInit_ex(md, NULL, algorithm->digest, NULL, NULL, key, NULL) != 1
        || EVP_DigestSign(md, sig, &len, data, (size_t)data_len) != 1) {
        ERR_clear_error();
        return fault(-EIO, "sign an SSH certificate");
    }
    put_text(inner, rsa ? "rsa-sha2-512" : algorithm->wire); /* RFC 8332: never SHA-1 */
    if (algorithm->curve) {
        if (put_ecdsa(inner, sig, len))
            return -EIO;
    } else {
        put_bytes(inner, sig, len);
    }
    put_bio(out, inner);
    return 0;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* Append options in lexical order. A value is a string inside the data; an option without a value
 * has empty data. */
static void put_options(BIO *out, const json_t *options)
{
    _cleanup_(bio_clear) BIO *all = BIO_new(BIO_s_mem());
    size_t n = json_object_size(options), i = 0;
    const char **names = memory_need(calloc(n + 1, sizeof(*names)), "SSH options"), *name;
    json_t *value;

    json_object_foreach((json_t *)options, name, value) names[i++] = name;
    qsort(names, n, sizeof(*names), by_name);
    for (i = 0; i < n; i++) {
        _cleanup_(bio_clear) BIO *data = BIO_new(BIO_s_mem());
        const char *text = json_string_value(json_object_get(options, names[i]));

        put_text(all, names[i]);
        if (*text)
            put_text(data, text);
        put_bio(all, data);
    }
    free(names);
    put_bio(out, all);
}

static void put_principals(BIO *out, const json_t *principals)
{
    _cleanup_(bio_clear) BIO *all = BIO_new(BIO_s_mem());
    json_t *item;
    size_t i;

    json_array_foreach(principals, i, item) put_text(all, json_string_value(item));
    put_bio(out, all);
}

/* Append a public key as a certificate holds it: its wire form without the name in front. */
static int put_certified_key(BIO *out, const char *public_key, const struct algorithm *algorithm)
{
    const char *text = public_key + strcspn(public_key, " \t");
    unsigned char blob[BLOB_MAX];
    size_t len, skip = 4 + strlen(algorithm->wire);

    text += strspn(text, " \t");
    if (sodium_base642bin(blob, sizeof(blob), text, strcspn(text, " \t\r\n"), NULL, &len, NULL,
                          sodium_base64_VARIANT_ORIGINAL)
        || len <= skip)
        return -EINVAL;
    BIO_write(out, blob + skip, (int)(len - skip));
    return 0;
}

int ssh_certify(const char *authority_private_key_pem, const ssh_certificate_t *certificate,
                char **ret_certificate)
{
    const struct algorithm *algorithm = algorithm_of(certificate->public_key);
    _cleanup_(bio_clear) BIO *pem = BIO_new_mem_buf(authority_private_key_pem, -1);
    _cleanup_(pkey_clear) EVP_PKEY *key = PEM_read_bio_PrivateKey(pem, NULL, NULL, NULL);
    _cleanup_(bio_clear) BIO *out = BIO_new(BIO_s_mem());
    _cleanup_(bio_clear) BIO *authority = BIO_new(BIO_s_mem());
    _cleanup_(free_mem) char *text = NULL;
    unsigned char nonce[NONCE_LEN];
    uint64_t serial;
    char type[64];

    if (!algorithm)
        return -EINVAL;
    if (!key || put_public(authority, key))
        return fault(-EIO, "read the key of an SSH authority");
    randombytes_buf(nonce, sizeof(nonce));
    randombytes_buf(&serial, sizeof(serial));
    snprintf(type, sizeof(type), "%s-cert-v01@openssh.com", algorithm->wire);
    put_text(out, type);
    put_bytes(out, nonce, sizeof(nonce));
    if (put_certified_key(out, certificate->public_key, algorithm))
        return -EINVAL;
    put_u64(out, serial);
    put_u32(out, certificate->host ? TYPE_HOST : TYPE_USER);
    put_text(out, certificate->key_id);
    put_principals(out, certificate->principals);
    put_u64(out, (uint64_t)certificate->valid_after);
    put_u64(out, (uint64_t)certificate->valid_until);
    put_options(out, certificate->critical_options);
    put_options(out, certificate->extensions);
    put_text(out, ""); /* the reserved field */
    put_bio(out, authority);
    if (put_signature(out, key, out))
        return -EIO;
    text = base64_text(out);
    return text && asprintf(ret_certificate, "%s %s", type, text) > 0 ? 0 : -ENOMEM;
}
