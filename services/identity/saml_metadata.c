/* What a route tells identity providers of itself, and where what they begin themselves leads. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"
#include "services/identity/sign_in_words.h"

#include <openssl/pem.h>
#include <openssl/x509.h>
#include <string.h>

/* ---- metadata ---- */

bool saml_put_certificate(FILE *out, const char *pem)
{
    BIO *bio = pem ? BIO_new_mem_buf(pem, -1) : NULL;
    X509 *certificate = bio ? PEM_read_bio_X509(bio, NULL, NULL, NULL) : NULL;
    unsigned char *der = NULL;
    int len = certificate ? i2d_X509(certificate, &der) : -1;

    if (len > 0)
        saml_put_base64(out, der, (size_t)len);
    OPENSSL_free(der);
    X509_free(certificate);
    BIO_free(bio);
    return len > 0;
}

/* A KeyDescriptor of the certificate; nothing, where the route has none of that name. False: it is
 * none. */
static bool put_key(FILE *out, const json_t *config, const char *use, const char *name)
{
    const char *pem = json_string_value(json_object_get(config, name));
    bool is_good;

    if (!pem)
        return true;
    fprintf(out,
            "<md:KeyDescriptor use=\"%s\"><ds:KeyInfo "
            "xmlns:ds=\"http://www.w3.org/2000/09/xmldsig#\"><ds:X509Data><ds:X509Certificate>",
            use);
    is_good = saml_put_certificate(out, pem);
    fputs("</ds:X509Certificate></ds:X509Data></ds:KeyInfo>", out);
    if (!strcmp(use, "encryption"))
        saml_put_encryption_methods(out);
    fputs("</md:KeyDescriptor>", out);
    return is_good;
}

/* The keys in use first: providers that take one key only take the first. A route of a version that
 * had no key for encryption gets it with its next change. */
static bool put_keys(FILE *out, const json_t *config)
{
    bool is_good = json_is_string(json_object_get(config, "request_signing_certificate_pem"));

    is_good = put_key(out, config, "signing", "request_signing_certificate_pem") && is_good;
    is_good = put_key(out, config, "signing", "other_request_signing_certificate_pem") && is_good;
    is_good = put_key(out, config, "encryption", "encryption_certificate_pem") && is_good;
    return put_key(out, config, "encryption", "other_encryption_certificate_pem") && is_good;
}

static void put_logout(FILE *out, const char *slo, const char *binding)
{
    fprintf(out, "<md:SingleLogoutService Binding=\"" SAML_BINDING "%s\"", binding);
    saml_put_attribute(out, "Location", slo);
    fputs("/>", out);
}

char *saml_metadata(const json_t *config, const char *entity_id, const char *acs, const char *slo)
{
    const char *format = json_string_value(json_object_get(config, "nameid_format"));
    _cleanup_(free_mem) char *text = NULL;
    bool is_good;
    size_t len;
    FILE *out = memory_need(open_memstream(&text, &len), "metadata of a route");

    fputs("<?xml version=\"1.0\"?>\n<md:EntityDescriptor "
          "xmlns:md=\"urn:oasis:names:tc:SAML:2.0:metadata\" entityID=\"",
          out);
    saml_put_value(out, entity_id);
    fputs("\"><md:SPSSODescriptor AuthnRequestsSigned=\"true\" WantAssertionsSigned=\"true\" "
          "protocolSupportEnumeration=\"" SAML_PROTOCOL "\">",
          out);
    is_good = put_keys(out, config);
    put_logout(out, slo, "HTTP-Redirect");
    put_logout(out, slo, "HTTP-POST");
    fputs("<md:NameIDFormat>", out);
    saml_put_xml(out, format ? format : SAML_FORMAT_UNSPECIFIED);
    fputs("</md:NameIDFormat><md:AssertionConsumerService Binding=\"" SAML_BINDING
          "HTTP-POST\" Location=\"",
          out);
    saml_put_value(out, acs);
    fputs("\" index=\"0\" isDefault=\"true\"/></md:SPSSODescriptor></md:EntityDescriptor>\n", out);
    fclose(out);
    return is_good ? take(text) : NULL;
}

/* ---- RelayState of unsolicited responses ---- */

/* Is the path home or below it? */
static bool is_within(const char *path, const char *home)
{
    size_t len = strlen(home);

    if (len && home[len - 1] == '/')
        len--;
    return !strncmp(path, home, len) && (!path[len] || strchr("/?", path[len]));
}

const char *saml_target(const char *relay_state, const char *host, const char *home)
{
    static const char https[] = "https://";
    const char *path = relay_state;

    if (!*path)
        return *home == '/' ? home : "/";
    if (!strncmp(path, https, strlen(https))) {
        path += strlen(https);
        if (strncmp(path, host, strlen(host)) != 0)
            return NULL;
        path += strlen(host);
        if (!*path)
            return *home == '/' ? home : "/";
    }
    /* words_target answers "/" also for what no browser is to be sent to */
    return *path == '/' && words_target(path) == path && is_within(path, home) ? path : NULL;
}
