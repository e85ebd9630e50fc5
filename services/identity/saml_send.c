/* Messages of ours on their way to an identity provider: what all of them begin with, and the URL
 * or form that brings one. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <string.h>

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
    saml_put_encoded(out, SAML_RSA_SHA256);
    fclose(out);
    return memory_need(text, "a SAML message");
}

static char *redirect_url(const saml_sending_t *self, const char *xml, size_t len)
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

static json_t *post_form(const saml_sending_t *self, const char *xml, size_t len)
{
    _cleanup_(free_mem) char *whole = saml_sign(self, xml, len);
    _cleanup_(free_mem) char *message = NULL;
    FILE *out;

    if (!whole)
        return NULL;
    out = memory_need(open_memstream(&message, &len), "a SAML message");
    saml_put_base64(out, whole, strlen(whole));
    fclose(out);
    return json_pack("{s:{s:s, s:s, s:s, s:s*}}", "post", "url", self->destination, "name",
                     self->is_response ? "SAMLResponse" : "SAMLRequest", "message",
                     memory_need(message, "a SAML message"), "relay_state", self->relay_state);
}

json_t *saml_deliver(const saml_sending_t *self, const char *xml, size_t len)
{
    _cleanup_(free_mem) char *url = NULL;

    if (self->is_post)
        return post_form(self, xml, len);
    url = redirect_url(self, xml, len);
    return url ? json_pack("{s:s}", "location", url) : NULL;
}
