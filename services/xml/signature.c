#include "services/xml/signature.h"
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "services/xml/algorithms.h"
#include "services/xml/document.h"
#include "services/xml/envelope.h"
#include "services/xml/signature_shape.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <string.h>
#include <xmlsec/crypto.h>
#include <xmlsec/errors.h>
#include <xmlsec/io.h>
#include <xmlsec/openssl/app.h>
#include <xmlsec/openssl/evp.h>
#include <xmlsec/xmldsig.h>
#include <xmlsec/xmlsec.h>

static const char no_key[] = "is by no key of the metadata, or what it covers was changed: has the "
                             "provider another certificate now than idp_metadata has?";

static int refuse(problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the signature %s", why);
}

void octets_done(octets_t *self)
{
    free(take(self->bytes));
    self->len = 0;
}

/* ---- the library ---- */

static void print_nothing(const char *file, int line, const char *func, const char *object,
                          const char *subject, int reason, const char *msg)
{
    (void)file;
    (void)line;
    (void)func;
    (void)object;
    (void)subject;
    (void)reason;
    (void)msg;
}

int signature_library_start(void)
{
    xmlSecErrorsSetCallback(print_nothing);
    if (xmlSecInit() < 0 || xmlSecCheckVersion() != 1 || xmlSecOpenSSLAppInit(NULL) < 0
        || xmlSecOpenSSLInit() < 0)
        return fault(-EPROTO, "start libxmlsec1");
    xmlSecIOCleanupCallbacks();
    return 0;
}

/* ---- XMLDSig ---- */

static xmlSecKeyPtr make_key(const signing_key_t *from)
{
    xmlSecKeyPtr key = xmlSecKeyCreate();
    xmlSecKeyDataPtr data = NULL;

    if (key && EVP_PKEY_up_ref(from->pkey)) {
        data = xmlSecOpenSSLEvpKeyAdopt(from->pkey);
        if (!data)
            EVP_PKEY_free(from->pkey);
    }
    if (data && xmlSecKeySetValue(key, data) == 0)
        return key;
    if (data)
        xmlSecKeyDataDestroy(data);
    if (key)
        xmlSecKeyDestroy(key);
    return NULL;
}

/* What the library may compute, beside what signature_shape.c has let pass. */
static bool allow_algorithms(xmlSecDSigCtxPtr ctx)
{
    xmlSecTransformId references[] = {xmlSecTransformEnvelopedId, xmlSecTransformExclC14NId,
                                      xmlSecTransformSha256Id, xmlSecTransformSha384Id,
                                      xmlSecTransformSha512Id};
    xmlSecTransformId signatures[] = {
        xmlSecTransformExclC14NId,    xmlSecTransformRsaSha256Id,   xmlSecTransformRsaSha384Id,
        xmlSecTransformRsaSha512Id,   xmlSecTransformEcdsaSha256Id, xmlSecTransformEcdsaSha384Id,
        xmlSecTransformEcdsaSha512Id,
    };

    ctx->enabledReferenceUris = xmlSecTransformUriTypeSameDocument;
    for (size_t i = 0; i < LEN(references); i++)
        if (xmlSecDSigCtxEnableReferenceTransform(ctx, references[i]) < 0)
            return false;
    for (size_t i = 0; i < LEN(signatures); i++)
        if (xmlSecDSigCtxEnableSignatureTransform(ctx, signatures[i]) < 0)
            return false;
    return true;
}

static xmlSecDSigCtxPtr make_context(const signing_key_t *key)
{
    xmlSecDSigCtxPtr ctx = xmlSecDSigCtxCreate(NULL); /* no keys manager: signKey is all there is */

    if (!ctx)
        return NULL;
    ctx->flags |= XMLSEC_DSIG_FLAGS_STORE_SIGNEDINFO_REFERENCES;
    ctx->signKey = make_key(key);
    if (ctx->signKey && allow_algorithms(ctx))
        return ctx;
    xmlSecDSigCtxDestroy(ctx);
    return NULL;
}

/* The octets whose digest the one reference had. False: there are none, and then the digest that
 * was right is that of nothing. */
static bool take_octets(xmlSecDSigCtxPtr ctx, octets_t *ret_octets)
{
    xmlSecDSigReferenceCtxPtr reference;
    xmlSecBufferPtr buffer;

    if (xmlSecPtrListGetSize(&ctx->signedInfoReferences) != 1)
        return false;
    reference = xmlSecPtrListGetItem(&ctx->signedInfoReferences, 0);
    buffer = reference && reference->status == xmlSecDSigStatusSucceeded
                 ? xmlSecDSigReferenceCtxGetPreDigestBuffer(reference)
                 : NULL;
    if (!buffer || !xmlSecBufferGetData(buffer) || !xmlSecBufferGetSize(buffer))
        return false;
    ret_octets->len = xmlSecBufferGetSize(buffer);
    ret_octets->bytes = malloc(ret_octets->len + 1);
    if (!ret_octets->bytes)
        return false;
    memcpy(ret_octets->bytes, xmlSecBufferGetData(buffer), ret_octets->len);
    ret_octets->bytes[ret_octets->len] = '\0';
    return true;
}

static bool verify_with(const signing_key_t *key, xmlNodePtr signature, octets_t *ret_octets)
{
    xmlSecDSigCtxPtr ctx = make_context(key);
    bool is_good = ctx && xmlSecDSigCtxVerify(ctx, signature) == 0
                   && ctx->status == xmlSecDSigStatusSucceeded && take_octets(ctx, ret_octets);

    if (ctx)
        xmlSecDSigCtxDestroy(ctx);
    return is_good;
}

/* Do the octets have the digest of the reference? The library says so already; this is so that no
 * other octets than those can be returned. */
static bool digest_is_right(const signature_shape_t *shape, const octets_t *octets)
{
    _cleanup_(free_mem) unsigned char *want = NULL;
    unsigned char digest[EVP_MAX_MD_SIZE];
    size_t want_len;
    unsigned len;

    return base64_decode(shape->digest_value, strlen(shape->digest_value), &want, &want_len)
           && EVP_Digest(octets->bytes, octets->len, digest, &len,
                         EVP_get_digestbyname(shape->digest->digest), NULL)
           && len == want_len && !CRYPTO_memcmp(digest, want, len);
}

static void remove_key_info(xmlNodePtr signature)
{
    xmlNodePtr info;

    while (element_children(signature, NS_DSIG, "KeyInfo", &info)) {
        xmlUnlinkNode(info);
        xmlFreeNode(info);
    }
}

static int verify_shaped(const signature_shape_t *shape, xmlNodePtr signature, const keys_t *keys,
                         octets_t *ret_octets, problem_t *problem)
{
    bool is_good = false;

    for (int i = 0; i < keys->count && !is_good; i++) {
        octets_done(ret_octets);
        is_good = keys->list[i].kind == shape->signature->kind
                  && verify_with(&keys->list[i], signature, ret_octets);
        ret_octets->key = &keys->list[i];
    }
    if (is_good && digest_is_right(shape, ret_octets))
        return 0;
    octets_done(ret_octets);
    return refuse(problem, no_key);
}

int signature_verify(xmlDocPtr document, xmlNodePtr signed_element, xmlNodePtr signature,
                     const keys_t *keys, octets_t *ret_octets, problem_t *problem)
{
    _cleanup_(signature_shape_done) signature_shape_t shape = {0};
    xmlAttrPtr attribute = element_attribute_node(signed_element, "ID");
    const char *id = element_attribute(signed_element, "ID");
    int r;

    if (signature->parent != signed_element || !id || !id_is_plain(id))
        return refuse(problem, "stands in an element without an ID of ASCII letters, digits, "
                               "\"_\", \"-\" and \".\"");
    r = signature_shape_read(&shape, signature, id, problem);
    if (r)
        return r;
    remove_key_info(signature);
    if (!xmlAddID(NULL, document, (const xmlChar *)id, attribute))
        return refuse(problem, "is of an ID that another element has too");
    return verify_shaped(&shape, signature, keys, ret_octets, problem);
}

/* ---- octets ---- */

/* r and s of the same length, one after the other (RFC 4050, 3.3), as OpenSSL wants them. The
 * caller frees it with OPENSSL_free. */
static unsigned char *der_of(const unsigned char *bytes, size_t len, int *ret_len)
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(bytes, (int)(len / 2), NULL);
    BIGNUM *s = BN_bin2bn(bytes + len / 2, (int)(len / 2), NULL);
    unsigned char *der = NULL;

    if (sig && r && s && ECDSA_SIG_set0(sig, r, s)) {
        *ret_len = i2d_ECDSA_SIG(sig, &der);
        r = s = NULL;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return der;
}

static bool verify_plain(const signing_key_t *key, const char *digest, const char *octets,
                         size_t len, const unsigned char *bytes, size_t bytes_len)
{
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool is_good =
        ctx && EVP_DigestVerifyInit(ctx, NULL, EVP_get_digestbyname(digest), NULL, key->pkey) == 1
        && EVP_DigestVerify(ctx, bytes, bytes_len, (const unsigned char *)octets, len) == 1;

    EVP_MD_CTX_free(ctx);
    return is_good;
}

static bool verify_octets_with(const signing_key_t *key, const char *digest, const char *octets,
                               size_t len, const unsigned char *bytes, size_t bytes_len)
{
    unsigned char *der;
    bool is_good;
    int der_len = 0;

    if (key->kind == KEY_RSA)
        return verify_plain(key, digest, octets, len, bytes, bytes_len);
    if (bytes_len != 2 * (((size_t)key->bits + 7) / 8))
        return false;
    der = der_of(bytes, bytes_len, &der_len);
    is_good = der && verify_plain(key, digest, octets, len, der, (size_t)der_len);
    OPENSSL_free(der);
    return is_good;
}

int signature_verify_octets(const char *octets, size_t len, const char *algorithm,
                            const unsigned char *bytes, size_t bytes_len, const keys_t *keys,
                            problem_t *problem)
{
    const algorithm_t *row = algorithm_of_signature(algorithm);

    if (!row)
        return problem_add(problem, ERR_SAML_MESSAGE, NULL,
                           "the signature has another algorithm than RSA or ECDSA with SHA-256, "
                           "SHA-384 or SHA-512: %s",
                           quote(algorithm).text);
    for (int i = 0; i < keys->count; i++)
        if (keys->list[i].kind == row->kind
            && verify_octets_with(&keys->list[i], row->digest, octets, len, bytes, bytes_len))
            return 0;
    return refuse(problem, no_key);
}
