#include "services/xml/keys.h"
#include "common/base/cleanup.h"
#include "services/xml/document.h"
#include "services/xml/envelope.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <openssl/x509.h>
#include <string.h>
#include <time.h>

enum {
    CERTIFICATE_TEXT_MAX = 16 << 10,
    RSA_BITS_MIN = 2048,
    RSA_BITS_MAX = 8192,
    RSA_EXPONENT_BITS_MAX = 64 /* a longer one only makes each verification slow */
};

static int refuse(problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SAML_METADATA, NULL, "the metadata %s", why);
}

static bool rsa_is_usable(EVP_PKEY *pkey)
{
    BIGNUM *exponent = NULL;
    int bits = EVP_PKEY_get_bits(pkey);
    bool is_short = EVP_PKEY_get_bn_param(pkey, OSSL_PKEY_PARAM_RSA_E, &exponent)
                    && BN_num_bits(exponent) <= RSA_EXPONENT_BITS_MAX;

    BN_free(exponent);
    return bits >= RSA_BITS_MIN && bits <= RSA_BITS_MAX && is_short;
}

static bool ec_is_usable(EVP_PKEY *pkey)
{
    char group[32] = "";

    return EVP_PKEY_get_group_name(pkey, group, sizeof(group), NULL)
           && (!strcmp(group, "prime256v1") || !strcmp(group, "secp384r1")
               || !strcmp(group, "secp521r1"));
}

/* Does anything verify with this key? Its kind and bits are set then. */
static bool key_is_usable(signing_key_t *self)
{
    self->bits = EVP_PKEY_get_bits(self->pkey);
    if (EVP_PKEY_is_a(self->pkey, "RSA")) {
        self->kind = KEY_RSA;
        return rsa_is_usable(self->pkey);
    }
    self->kind = KEY_EC;
    return EVP_PKEY_is_a(self->pkey, "EC") && ec_is_usable(self->pkey);
}

static int64_t end_of(const X509 *certificate)
{
    struct tm tm;

    return ASN1_TIME_to_tm(X509_get0_notAfter(certificate), &tm) ? 1000 * (int64_t)timegm(&tm) : 0;
}

static void print_sha256(const unsigned char *bytes, size_t len, char out[65])
{
    unsigned char digest[SHA256_DIGEST_LENGTH];

    SHA256(bytes, len, digest);
    for (size_t i = 0; i < sizeof(digest); i++)
        snprintf(out + 2 * i, 3, "%02x", digest[i]);
}

/* Of the public key in its own encoding: a certificate may have another one of the same. False: no
 * memory. */
static bool print_key(EVP_PKEY *pkey, char out[65])
{
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(pkey, &der);

    if (len > 0)
        print_sha256(der, (size_t)len, out);
    OPENSSL_free(der);
    return len > 0;
}

/* Take over a certificate. False: no memory, or its key cannot be read. */
static bool take_key(keys_t *self, X509 *certificate, const unsigned char *der, size_t len)
{
    signing_key_t *one = &self->list[self->count];

    *one =
        (signing_key_t){.pkey = X509_get_pubkey(certificate), .not_after_ms = end_of(certificate)};
    X509_free(certificate);
    if (!one->pkey)
        return false;
    print_sha256(der, len, one->sha256);
    if (key_is_usable(one) && print_key(one->pkey, one->key_sha256)) {
        self->count++;
        return true;
    }
    EVP_PKEY_free(one->pkey);
    self->unusable++;
    return true;
}

static int take_certificate(keys_t *self, const xmlNode *element, problem_t *problem)
{
    _cleanup_(free_mem) char *text = element_text(element, CERTIFICATE_TEXT_MAX);
    _cleanup_(free_mem) unsigned char *der = NULL;
    const unsigned char *at;
    size_t len = 0;
    X509 *certificate;

    if (self->count == KEYS_MAX)
        return refuse(problem, "has more than 8 certificates for signing");
    if (!text || !base64_decode(text, strlen(text), &der, &len))
        return refuse(problem, "has a certificate that is not base64");
    at = der;
    certificate = d2i_X509(NULL, &at, (long)len);
    if (certificate && at != der + len) {
        X509_free(certificate);
        certificate = NULL;
    }
    if (!certificate || !take_key(self, certificate, der, len))
        return refuse(problem, "has a certificate that cannot be read");
    return 0;
}

/* The first certificate of a KeyDescriptor: others there are those of its authorities. */
static xmlNodePtr first_certificate(const xmlNode *descriptor)
{
    xmlNodePtr info, data, certificate;

    if (element_children(descriptor, NS_DSIG, "KeyInfo", &info) != 1)
        return NULL;
    for (data = element_first(info); data; data = element_next(data))
        if (element_is(data, NS_DSIG, "X509Data")
            && element_children(data, NS_DSIG, "X509Certificate", &certificate))
            return certificate;
    return NULL;
}

int keys_take(keys_t *self, const xmlNode *descriptor, problem_t *problem)
{
    int r = 0;

    for (xmlNodePtr one = element_first(descriptor); one && !r; one = element_next(one)) {
        const char *use = element_attribute(one, "use");
        const xmlNode *certificate;

        if (!element_is(one, NS_METADATA, "KeyDescriptor") || (use && strcmp(use, "signing") != 0))
            continue;
        certificate = first_certificate(one);
        if (certificate)
            r = take_certificate(self, certificate, problem);
    }
    if (!r && !self->count)
        r = refuse(problem, self->unusable ? "has no certificate with an RSA key of 2048 to 8192 "
                                             "bits, or an EC key over P-256, P-384 or P-521"
                                           : "has no certificate for signing");
    return r;
}

void keys_done(keys_t *self)
{
    for (int i = 0; i < self->count; i++)
        EVP_PKEY_free(self->list[i].pkey);
    self->count = 0;
}
