#include "services/edge/modules/webhook_sum.h"

#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <stdlib.h>

struct webhook_sum {
    EVP_MAC_CTX *mac; /* NULL: a digest */
    EVP_MD_CTX *digest;
    bool failed;
};

static const char *digest_of(webhook_scheme_t scheme)
{
    switch (scheme) {
    case WEBHOOK_HMAC_SHA1:
        return "SHA1";
    case WEBHOOK_HMAC_SHA512:
        return "SHA512";
    default:
        return "SHA256";
    }
}

/* Found once: looking for it takes longer than a short message. */
static EVP_MAC *hmac(void)
{
    static EVP_MAC *found;

    if (!found)
        found = EVP_MAC_fetch(NULL, "HMAC", NULL);
    return found;
}

webhook_sum_t *webhook_sum_begin(webhook_scheme_t scheme, const unsigned char *key, size_t len)
{
    OSSL_PARAM params[] = {
        OSSL_PARAM_construct_utf8_string(OSSL_MAC_PARAM_DIGEST, (char *)digest_of(scheme), 0),
        OSSL_PARAM_construct_end(),
    };
    webhook_sum_t *self = calloc(1, sizeof(*self));

    if (!self)
        return NULL;
    if (scheme == WEBHOOK_ECDSA_P256) {
        self->digest = EVP_MD_CTX_new();
        self->failed = !self->digest || EVP_DigestInit_ex(self->digest, EVP_sha256(), NULL) != 1;
    } else {
        self->mac = hmac() ? EVP_MAC_CTX_new(hmac()) : NULL;
        self->failed = !self->mac || EVP_MAC_init(self->mac, key, len, params) != 1;
    }
    return self;
}

void webhook_sum_add(webhook_sum_t *self, const void *bytes, size_t len)
{
    if (self->failed || !len)
        return;
    self->failed = (self->mac ? EVP_MAC_update(self->mac, bytes, len)
                              : EVP_DigestUpdate(self->digest, bytes, len))
                   != 1;
}

size_t webhook_sum_end(webhook_sum_t *self, unsigned char out[WEBHOOK_SUM_MAX])
{
    size_t len = 0;
    unsigned int digest_len = 0;

    if (!self->failed && self->mac)
        self->failed = EVP_MAC_final(self->mac, out, &len, WEBHOOK_SUM_MAX) != 1;
    else if (!self->failed)
        self->failed = EVP_DigestFinal_ex(self->digest, out, &digest_len) != 1;
    len = self->failed ? 0 : len + digest_len;
    EVP_MAC_CTX_free(self->mac);
    EVP_MD_CTX_free(self->digest);
    free(self);
    return len;
}
