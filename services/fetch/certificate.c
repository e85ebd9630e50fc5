#include "services/fetch/certificate.h"
#include "common/base/memory.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <string.h>

enum { KEY_BITS_MIN = 2048, KEY_BITS_MAX = 8192, DEPTH_MAX = 4 };

struct certificate {
    X509 *leaf;
    STACK_OF(X509) * others;
};

/* A key file's passphrase is nobody's to ask for. */
static int no_passphrase(char *out, int size, int writing, void *unused)
{
    (void)out;
    (void)size;
    (void)writing;
    (void)unused;
    return 0;
}

void certificate_destroy(certificate_t **self_p)
{
    certificate_t *self = *self_p;

    *self_p = NULL;
    if (!self)
        return;
    X509_free(self->leaf);
    sk_X509_pop_free(self->others, X509_free);
    free(self);
}

certificate_t *certificate_read(const void *pem, size_t len, const char **ret_why)
{
    BIO *bio = len && len <= CERTIFICATE_BYTES_MAX ? BIO_new_mem_buf(pem, (int)len) : NULL;
    certificate_t *self = memory_new(sizeof(*self), "a certificate");
    X509 *next;

    self->others = sk_X509_new_null();
    self->leaf = bio && self->others ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
    while (self->leaf && sk_X509_num(self->others) < CERTIFICATES_MAX - 1
           && (next = PEM_read_bio_X509(bio, NULL, no_passphrase, NULL)))
        sk_X509_push(self->others, next);
    BIO_free(bio);
    ERR_clear_error();
    *ret_why = "it is not a certificate in PEM";
    if (!self->leaf)
        certificate_destroy(&self);
    return self;
}

bool certificate_add_issuer(certificate_t *self, const void *bytes, size_t len)
{
    const unsigned char *at = bytes;
    X509 *issuer = NULL;

    if (len && len <= CERTIFICATE_BYTES_MAX)
        issuer = d2i_X509(NULL, &at, (long)len);
    if (!issuer && len && len <= CERTIFICATE_BYTES_MAX) {
        BIO *bio = BIO_new_mem_buf(bytes, (int)len);

        issuer = bio ? PEM_read_bio_X509(bio, NULL, no_passphrase, NULL) : NULL;
        BIO_free(bio);
    }
    ERR_clear_error();
    return issuer && sk_X509_push(self->others, issuer) > 0;
}

/* Text of an http URL with a host name and without a port, as far as is looked at here: the way out
 * looks at the rest. */
static bool is_issuer_url(const char *text, size_t len)
{
    static const char scheme[] = "http://";
    size_t at = sizeof(scheme) - 1;

    if (len <= at || len > CERTIFICATE_ISSUER_URL_MAX || memcmp(text, scheme, at) != 0)
        return false;
    for (size_t i = 0; i < len; i++)
        if (text[i] <= ' ' || text[i] > '~')
            return false;
    while (at < len && text[at] != '/') {
        if (text[at] == ':' || text[at] == '@' || text[at] == '[')
            return false;
        at++;
    }
    return at < len;
}

/* The last certificate of the chain that is there: the one that nobody here has issued. */
static X509 *last_of(const certificate_t *self)
{
    X509 *last = self->leaf;

    for (int depth = 0; depth < CERTIFICATES_MAX; depth++) {
        X509 *issuer = NULL;

        for (int i = 0; !issuer && i < sk_X509_num(self->others); i++)
            if (sk_X509_value(self->others, i) != last
                && X509_check_issued(sk_X509_value(self->others, i), last) == X509_V_OK)
                issuer = sk_X509_value(self->others, i);
        if (!issuer)
            break;
        last = issuer;
    }
    return last;
}

bool certificate_issuer_url(const certificate_t *self, char out[CERTIFICATE_ISSUER_URL_MAX + 1])
{
    AUTHORITY_INFO_ACCESS *all = X509_get_ext_d2i(last_of(self), NID_info_access, NULL, NULL);
    bool found = false;

    for (int i = 0; all && !found && i < sk_ACCESS_DESCRIPTION_num(all); i++) {
        const ACCESS_DESCRIPTION *one = sk_ACCESS_DESCRIPTION_value(all, i);
        const char *text;
        size_t len;

        if (OBJ_obj2nid(one->method) != NID_ad_ca_issuers || one->location->type != GEN_URI)
            continue;
        text = (const char *)ASN1_STRING_get0_data(one->location->d.uniformResourceIdentifier);
        len = (size_t)ASN1_STRING_length(one->location->d.uniformResourceIdentifier);
        found = is_issuer_url(text, len);
        if (found) {
            memcpy(out, text, len);
            out[len] = '\0';
        }
    }
    AUTHORITY_INFO_ACCESS_free(all);
    ERR_clear_error();
    return found;
}

/* What the certificate says of itself. NULL: it could be the signer's. */
static const char *leaf_fault(X509 *leaf, const signer_url_t *url)
{
    EVP_PKEY *key = X509_get0_pubkey(leaf);
    char name[256];
    bool is_named = false;

    for (unsigned n = 0; !is_named && signer_url_name(url, n, name, sizeof(name)); n++)
        is_named = X509_check_host(leaf, name, 0, X509_CHECK_FLAG_NO_WILDCARDS, NULL) == 1;
    if (!is_named)
        return "its names are not the signer's";
    if (X509_check_ca(leaf))
        return "it is an authority's";
    if (!key || !EVP_PKEY_is_a(key, "RSA") || EVP_PKEY_get_bits(key) < KEY_BITS_MIN
        || EVP_PKEY_get_bits(key) > KEY_BITS_MAX)
        return "its key is not RSA of 2048 to 8192 bits";
    return NULL;
}

static certificate_verdict_t verdict_of(int error, const char **ret_why)
{
    switch (error) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        *ret_why = "its issuer is not known";
        return CERTIFICATE_LACKS_ISSUER;
    case X509_V_ERR_CERT_NOT_YET_VALID:
    case X509_V_ERR_CERT_HAS_EXPIRED:
        *ret_why = "it, or an issuer of it, is not valid at this time";
        return CERTIFICATE_BAD;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
        *ret_why = "no authority of this machine vouches for it";
        return CERTIFICATE_BAD;
    default:
        *ret_why = X509_verify_cert_error_string(error);
        return CERTIFICATE_BAD;
    }
}

certificate_verdict_t certificate_judge(const certificate_t *self, const signer_url_t *url,
                                        X509_STORE *authorities, int64_t now_s,
                                        const char **ret_why)
{
    X509_STORE_CTX *context;
    X509_VERIFY_PARAM *param;
    certificate_verdict_t verdict = CERTIFICATE_BAD;

    *ret_why = leaf_fault(self->leaf, url);
    if (*ret_why)
        return CERTIFICATE_BAD;
    *ret_why = "it cannot be checked: out of memory";
    context = X509_STORE_CTX_new();
    if (context && X509_STORE_CTX_init(context, authorities, self->leaf, self->others) == 1) {
        param = X509_STORE_CTX_get0_param(context);
        X509_VERIFY_PARAM_set_time(param, (time_t)now_s);
        X509_VERIFY_PARAM_set_depth(param, DEPTH_MAX);
        X509_VERIFY_PARAM_set_auth_level(param, 2);
        X509_STORE_CTX_set_purpose(context, X509_PURPOSE_SSL_SERVER);
        if (X509_verify_cert(context) == 1)
            verdict = CERTIFICATE_GOOD;
        else
            verdict = verdict_of(X509_STORE_CTX_get_error(context), ret_why);
    }
    X509_STORE_CTX_free(context);
    ERR_clear_error();
    return verdict;
}

bool certificate_tell(const certificate_t *self, signer_told_t *out)
{
    struct tm last;
    unsigned char *der = NULL;
    int len = i2d_PUBKEY(X509_get0_pubkey(self->leaf), &der);
    bool fits = len > 0 && len <= SIGNER_KEY_MAX
                && ASN1_TIME_to_tm(X509_get0_notAfter(self->leaf), &last) == 1;

    if (fits) {
        memcpy(out->key, der, (size_t)len);
        out->key_len = (uint32_t)len;
        out->until_s = timegm(&last);
    }
    OPENSSL_free(der);
    ERR_clear_error();
    return fits;
}
