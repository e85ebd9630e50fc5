#include "services/xml/cipher.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

enum { GCM_IV = 12, GCM_TAG = 16, BLOCK = 16, KEY_MAX = 32 };

static const cipher_t ciphers[] = {
    {"http://www.w3.org/2009/xmlenc11#aes128-gcm", "AES-128-GCM", 16, false},
    {"http://www.w3.org/2009/xmlenc11#aes256-gcm", "AES-256-GCM", 32, false},
    {"http://www.w3.org/2001/04/xmlenc#aes128-cbc", "AES-128-CBC", 16, true},
    {"http://www.w3.org/2001/04/xmlenc#aes256-cbc", "AES-256-CBC", 32, true},
};

const cipher_t *cipher_find(const char *uri)
{
    for (size_t i = 0; uri && i < LEN(ciphers); i++)
        if (!strcmp(ciphers[i].uri, uri))
            return &ciphers[i];
    return NULL;
}

static bool open_gcm(EVP_CIPHER_CTX *ctx, unsigned char *out, const unsigned char *bytes,
                     size_t len)
{
    int n, rest;

    return EVP_DecryptUpdate(ctx, out, &n, bytes, (int)len) == 1
           && EVP_CIPHER_CTX_ctrl(ctx, EVP_CTRL_AEAD_SET_TAG, GCM_TAG, (void *)(bytes + len)) == 1
           && EVP_DecryptFinal_ex(ctx, out + n, &rest) == 1;
}

/* The last byte says how many there are too many; the others of them may be anything (5.2.1). */
static bool open_cbc(EVP_CIPHER_CTX *ctx, unsigned char *out, const unsigned char *bytes,
                     size_t *len)
{
    int n;

    EVP_CIPHER_CTX_set_padding(ctx, 0);
    if (EVP_DecryptUpdate(ctx, out, &n, bytes, (int)*len) != 1 || (size_t)n != *len)
        return false;
    if (out[n - 1] < 1 || out[n - 1] > BLOCK)
        return false;
    *len -= out[n - 1];
    return true;
}

bool cipher_open(const cipher_t *self, const unsigned char *key, const unsigned char *bytes,
                 size_t len, char **ret_bytes, size_t *ret_len)
{
    size_t iv = self->is_cbc ? BLOCK : GCM_IV, least = iv + (self->is_cbc ? BLOCK : GCM_TAG);
    size_t n = len < least ? 0 : self->is_cbc ? len - iv : len - least;
    EVP_CIPHER_CTX *ctx = EVP_CIPHER_CTX_new();
    _cleanup_(free_mem) unsigned char *out = malloc(n + 1);
    bool is_good =
        ctx && out && len >= least && (!self->is_cbc || n % BLOCK == 0)
        && EVP_DecryptInit_ex(ctx, EVP_get_cipherbyname(self->name), NULL, key, bytes)
        && (self->is_cbc ? open_cbc(ctx, out, bytes + iv, &n) : open_gcm(ctx, out, bytes + iv, n));

    EVP_CIPHER_CTX_free(ctx);
    if (!is_good)
        return false;
    out[n] = '\0';
    *ret_bytes = (char *)take(out);
    *ret_len = n;
    return true;
}

/* ---- start ---- */

int cipher_library_start(void)
{
    static const unsigned char key[KEY_MAX], bytes[2 * BLOCK];

    for (size_t i = 0; i < LEN(ciphers); i++) {
        _cleanup_(free_mem) char *out = NULL;
        size_t len;

        if (!EVP_get_cipherbyname(ciphers[i].name))
            return fault(-EPROTO, "use OpenSSL");
        cipher_open(&ciphers[i], key, bytes, sizeof(bytes), &out, &len); /* whatever comes out */
    }
    return 0;
}
