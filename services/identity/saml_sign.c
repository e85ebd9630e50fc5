/* A message of ours that is signed in itself (SAML core 5.4, XMLDSig): an enveloped signature with
 * exclusive canonicalization. No XML is parsed for it: messages are made in canonical form, which
 * is what has to be signed. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <openssl/sha.h>
#include <string.h>

#define DSIG      "http://www.w3.org/2000/09/xmldsig#"
#define EXCLUSIVE "http://www.w3.org/2001/10/xml-exc-c14n#"

static const char issuer_end[] = "</saml:Issuer>";

/* SignedInfo in canonical form: by itself it has the namespace that is declared around it, too. */
static char *signed_info(const char *id, const char *xml, size_t xml_len, size_t *ret_len)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char *text = NULL;
    FILE *out = memory_need(open_memstream(&text, ret_len), "a signature");

    SHA256((const unsigned char *)xml, xml_len, digest);
    fputs("<ds:SignedInfo xmlns:ds=\"" DSIG "\"><ds:CanonicalizationMethod Algorithm=\"" EXCLUSIVE
          "\"></ds:CanonicalizationMethod><ds:SignatureMethod Algorithm=\"" SAML_RSA_SHA256
          "\"></ds:SignatureMethod><ds:Reference",
          out);
    fputs(" URI=\"#", out);
    saml_put_value(out, id);
    fputs(
        "\"><ds:Transforms><ds:Transform Algorithm=\"" DSIG
        "enveloped-signature\"></ds:Transform><ds:Transform Algorithm=\"" EXCLUSIVE
        "\"></ds:Transform></ds:Transforms><ds:DigestMethod "
        "Algorithm=\"http://www.w3.org/2001/04/xmlenc#sha256\"></ds:DigestMethod><ds:DigestValue>",
        out);
    saml_put_base64(out, digest, sizeof(digest));
    fputs("</ds:DigestValue></ds:Reference></ds:SignedInfo>", out);
    fclose(out);
    return memory_need(text, "a signature");
}

char *saml_sign(const saml_sending_t *self, const char *xml, size_t len)
{
    const char *behind = strstr(xml, issuer_end);
    size_t before = behind ? (size_t)(behind - xml) + strlen(issuer_end) : 0, info_len = 0, whole;
    _cleanup_(free_mem) char *info = signed_info(self->id, xml, len, &info_len);
    _cleanup_(free_mem) char *signature = saml_signature(self->key_pem, info, info_len);
    _cleanup_(free_mem) char *text = NULL;
    bool is_good;
    FILE *out;

    if (!behind || !signature)
        return NULL;
    out = memory_need(open_memstream(&text, &whole), "a SAML message");
    fprintf(out,
            "%.*s<ds:Signature xmlns:ds=\"" DSIG "\">%s<ds:SignatureValue>%s"
            "</ds:SignatureValue><ds:KeyInfo><ds:X509Data><ds:X509Certificate>",
            (int)before, xml, info, signature);
    is_good = saml_put_certificate(out, self->certificate_pem);
    fprintf(out, "</ds:X509Certificate></ds:X509Data></ds:KeyInfo></ds:Signature>%s", xml + before);
    fclose(out);
    return is_good ? take(text) : NULL;
}
