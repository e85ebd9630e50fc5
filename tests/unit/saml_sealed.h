/* Encrypted assertions: those of tests/unit/saml, encrypted here with a key of the tests. */
#pragma once

#include "tests/unit/saml_messages.h"

#include <openssl/evp.h>

#define XENC      "http://www.w3.org/2001/04/xmlenc#"
#define XENC11    "http://www.w3.org/2009/xmlenc11#"
#define DSIG      "http://www.w3.org/2000/09/xmldsig#"
#define ENCRYPTED "<saml:EncryptedAssertion xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\">"

static const unsigned char content_key[32] = "0123456789abcdef0123456789abcdef";

static const struct way {
    const char *uri, *name;
    size_t key_bytes, iv, tag;
} gcm128 = {XENC11 "aes128-gcm", "AES-128-GCM", 16, 12, 16},
  gcm256 = {XENC11 "aes256-gcm", "AES-256-GCM", 32, 12, 16},
  cbc128 = {XENC "aes128-cbc", "AES-128-CBC", 16, 16, 0};

static char *base64_of(const unsigned char *bytes, size_t len)
{
    char *text = malloc(4 * (len / 3 + 1) + 1);

    EVP_EncodeBlock((unsigned char *)text, bytes, (int)len);
    return text;
}

/* IV, what is encrypted, and the tag, as base64. */
static inline char *encrypt(const struct way *way, const char *plain)
{
    size_t len = strlen(plain);
    unsigned char *out = calloc(1, way->iv + len + 32);
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    int n = 0, rest = 0;
    char *text;

    memcpy(out, "an IV of 16 byte", way->iv);
    EVP_EncryptInit_ex(ctx, EVP_get_cipherbyname(way->name), NULL, content_key, out);
    EVP_EncryptUpdate(ctx, out + way->iv, &n, (const unsigned char *)plain, (int)len);
    EVP_EncryptFinal_ex(ctx, out + way->iv + n, &rest);
    if (way->tag)
        EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_GET_TAG, (int)way->tag, out + way->iv + n + rest);
    EVP_CIPHER_CTX_free(ctx);
    text = base64_of(out, way->iv + (size_t)n + (size_t)rest + way->tag);
    free(out);
    return text;
}

/* The text with another one in the place of the first from. */
static inline char *swapped(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    char *out = NULL;

    cr_assert(at, "%s is not in %s", from, text);
    cr_assert_geq(asprintf(&out, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from)), 0);
    return out;
}

/* Where the assertion of a response begins, and its length. */
static inline const char *assertion_of(const char *xml, size_t *ret_len)
{
    static const char end[] = "</saml:Assertion>";
    const char *at = strstr(xml, "<saml:Assertion"), *behind = strstr(xml, end);

    cr_assert(at && behind);
    *ret_len = (size_t)(behind - at) + strlen(end);
    return at;
}

/* An EncryptedAssertion of that plain text. */
static inline char *sealed(const struct way *way, const char *plain)
{
    _cleanup_(free_mem) char *content = encrypt(way, plain);
    char *out = NULL;

    cr_assert_geq(asprintf(&out,
                           ENCRYPTED
                           "<xenc:EncryptedData xmlns:xenc=\"" XENC "\" Type=\"" XENC "Element\">"
                           "<xenc:EncryptionMethod Algorithm=\"%s\"/><ds:KeyInfo xmlns:ds=\"" DSIG
                           "\"><xenc:EncryptedKey><xenc:EncryptionMethod Algorithm=\"" XENC
                           "rsa-oaep-mgf1p\"/><xenc:CipherData><xenc:CipherValue>d3JhcHBlZA=="
                           "</xenc:CipherValue></xenc:CipherData></xenc:EncryptedKey></ds:KeyInfo>"
                           "<xenc:CipherData><xenc:CipherValue>%s</xenc:CipherValue>"
                           "</xenc:CipherData></xenc:EncryptedData></saml:EncryptedAssertion>",
                           way->uri, content),
                  0);
    return out;
}

/* A response with something else in the place of its assertion. */
static inline char *response_with(const char *xml, const char *in_place)
{
    size_t len;
    const char *at = assertion_of(xml, &len);
    char *out = NULL;

    cr_assert_geq(asprintf(&out, "%.*s%s%s", (int)(at - xml), xml, in_place, at + len), 0);
    return out;
}

/* The response of a file, whose assertion is encrypted. */
static inline char *encrypted_file(const char *name, const struct way *way)
{
    _cleanup_(free_mem) char *xml = read_file(name);
    _cleanup_(free_mem) char *plain = NULL, *inside = NULL;
    const char *at;
    size_t len;

    at = assertion_of(xml, &len);
    plain = strndup(at, len);
    inside = sealed(way, plain);
    return response_with(xml, inside);
}

/* What is said of a message: with the key of its content, or without. Why it was refused is in
 * why. */
static inline json_t *say(const char *xml, const unsigned char *key, size_t key_len, char why[512])
{
    _cleanup_(free_mem) char *metadata = read_file("metadata");
    _cleanup_(free_mem) char *key_text = key ? base64_of(key, key_len) : NULL;
    _cleanup_(json_clear_ref) json_t *body = question(metadata, xml, strlen(xml), key_text);
    _cleanup_(problem_done) problem_t problem = {0};
    json_t *answer = NULL;
    int r = verify_message(body, &answer, &problem);

    cr_assert_eq(r != 0, answer == NULL);
    snprintf(why, 512, "%s", problem.msg);
    return answer;
}
