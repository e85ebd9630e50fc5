/* Messages of ours on their way to an identity provider: what all of them begin with, and the URL
 * that brings one. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <string.h>

#define RSA_SHA256 "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"

void saml_put_issuer(FILE *out, const char *entity_id)
{
    fputs("<saml:Issuer xmlns:saml=\"" SAML_ASSERTION "\">", out);
    saml_put_xml(out, entity_id);
    fputs("</saml:Issuer>", out);
}

/* What is signed (SAML bindings 3.4.4.1): these, in this order, as they stand in the URL. */
static char *query_of(const saml_sending_t *self, const char *message, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = memory_need(open_memstream(&text, ret_len), "a SAML message");

    fputs(self->is_response ? "SAMLResponse=" : "SAMLRequest=", out);
    saml_put_encoded(out, message);
    if (self->relay_state) {
        fputs("&RelayState=", out);
        saml_put_encoded(out, self->relay_state);
    }
    fputs("&SigAlg=", out);
    saml_put_encoded(out, RSA_SHA256);
    fclose(out);
    return memory_need(text, "a SAML message");
}

char *saml_redirect_url(const saml_sending_t *self, const char *xml, size_t len)
{
    _cleanup_(free_mem) char *message = saml_deflate(xml, len);
    _cleanup_(free_mem) char *query = message ? query_of(self, message, &len) : NULL;
    _cleanup_(free_mem) char *signature = query ? saml_signature(self->key_pem, query, len) : NULL;
    _cleanup_(free_mem) char *url = NULL;
    FILE *out;

    if (!signature)
        return NULL;
    out = memory_need(open_memstream(&url, &len), "a SAML message");
    fprintf(out, "%s%c%s&Signature=", self->destination, strchr(self->destination, '?') ? '&' : '?',
            query);
    saml_put_encoded(out, signature);
    fclose(out);
    return url && len <= SAML_LOCATION_MAX ? take(url) : NULL;
}
