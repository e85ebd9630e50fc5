/* Encrypted assertions, here where the route's private key is: the key of an assertion's content is
 * opened, and handed to postern-saml, which decrypts with it. What this key opens is never said to
 * whoever sent it: a key that cannot be opened is a random one, and then nothing can be decrypted
 * with it, which is the one answer to everything that is wrong (RFC 8017, 7.1.2; RFC 5246,
 * 7.4.7.1). */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/secret.h"
#include "services/identity/saml_internal.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <sodium.h>
#include <string.h>

enum { WRAPPED_MAX = 1024, CONTENT_KEY_MAX = 32 };

/* ---- the content key ---- */

static const EVP_MD *digest_of(const json_t *encrypted, const char *name)
{
    const char *text = json_string_value(json_object_get(encrypted, name));

    if (text && !strcmp(text, "SHA1"))
        return EVP_sha1();
    return text && !strcmp(text, "SHA256") ? EVP_sha256() : NULL;
}

static EVP_PKEY_CTX *oaep_context(const char *key_pem, const json_t *encrypted)
{
    const EVP_MD *digest = digest_of(encrypted, "digest"), *mgf1 = digest_of(encrypted, "mgf1");
    BIO *bio = key_pem ? BIO_new_mem_buf(key_pem, -1) : NULL;
    EVP_PKEY *key = bio ? PEM_read_bio_PrivateKey(bio, NULL, NULL, NULL) : NULL;
    EVP_PKEY_CTX *ctx = key ? EVP_PKEY_CTX_new(key, NULL) : NULL;

    BIO_free(bio);
    if (!ctx || !digest || !mgf1 || !EVP_PKEY_is_a(key, "RSA")
        || EVP_PKEY_get_size(key) > WRAPPED_MAX || EVP_PKEY_decrypt_init(ctx) != 1
        || EVP_PKEY_CTX_set_rsa_padding(ctx, RSA_PKCS1_OAEP_PADDING) != 1
        || EVP_PKEY_CTX_set_rsa_oaep_md(ctx, digest) != 1
        || EVP_PKEY_CTX_set_rsa_mgf1_md(ctx, mgf1) != 1) {
        EVP_PKEY_CTX_free(ctx);
        ctx = NULL;
    }
    EVP_PKEY_free(key);
    return ctx;
}

/* What was opened where it has the right length, else what is in out already; which of them shows
 * in no branch. */
static void open_or_keep(EVP_PKEY_CTX *ctx, const unsigned char *wrapped, size_t wrapped_len,
                         unsigned char *out, size_t bytes)
{
    unsigned char opened[WRAPPED_MAX] = {0};
    size_t len = sizeof(opened);
    int r = EVP_PKEY_decrypt(ctx, opened, &len, wrapped, wrapped_len);
    volatile unsigned char mask = (unsigned char)-((r == 1) & (len == bytes));

    for (size_t i = 0; i < bytes; i++)
        out[i] = (unsigned char)((opened[i] & mask) | (out[i] & (unsigned char)~mask));
    OPENSSL_cleanse(opened, sizeof(opened));
    ERR_clear_error(); /* nobody is to read there what was wrong */
}

char *saml_content_key(const char *key_pem, const char *other_pem, const json_t *encrypted)
{
    const char *text = json_string_value(json_object_get(encrypted, "key"));
    const char *const pems[] = {key_pem, other_pem};
    json_int_t bytes = json_integer_value(json_object_get(encrypted, "bytes"));
    unsigned char wrapped[WRAPPED_MAX], key[CONTENT_KEY_MAX];
    bool is_any = false;
    char *out = NULL;
    size_t len;

    if (!text || (bytes != 16 && bytes != 32)
        || sodium_base642bin(wrapped, sizeof(wrapped), text, strlen(text), NULL, &len, NULL,
                             sodium_base64_VARIANT_ORIGINAL))
        return NULL;
    randombytes_buf(key, sizeof(key));
    for (size_t i = 0; i < LEN(pems); i++) {
        EVP_PKEY_CTX *ctx = oaep_context(pems[i], encrypted);

        if (ctx)
            open_or_keep(ctx, wrapped, len, key, (size_t)bytes);
        is_any = is_any || ctx;
        EVP_PKEY_CTX_free(ctx);
    }
    if (is_any) {
        out = memory_need(malloc(4 * (CONTENT_KEY_MAX / 3 + 1) + 1), "the key of an assertion");
        EVP_EncodeBlock((unsigned char *)out, key, (int)bytes);
    }
    OPENSSL_cleanse(key, sizeof(key));
    return out;
}

/* ---- metadata ---- */

void saml_put_encryption_methods(FILE *out)
{
    static const char *const methods[] = {"http://www.w3.org/2009/xmlenc11#aes256-gcm",
                                          "http://www.w3.org/2009/xmlenc11#aes128-gcm",
                                          "http://www.w3.org/2009/xmlenc11#rsa-oaep",
                                          "http://www.w3.org/2001/04/xmlenc#rsa-oaep-mgf1p"};

    for (size_t i = 0; i < LEN(methods); i++)
        fprintf(out, "<md:EncryptionMethod Algorithm=\"%s\"/>", methods[i]);
}
