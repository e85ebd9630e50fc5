/* The AuthnRequest (SAML core 3.4.1), and the URL that brings it to the provider. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <string.h>

#define RSA_SHA256 "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"

static void put_attribute(FILE *out, const char *name, const char *value)
{
    fprintf(out, " %s=\"", name);
    saml_put_xml(out, value);
    fputc('"', out);
}

/* Of transient names nothing can be created (SAML core 3.4.1.1). */
static void put_policy(FILE *out, const char *format)
{
    if (!format || !*format)
        return;
    fputs("<samlp:NameIDPolicy", out);
    if (strcmp(format, SAML_FORMAT_TRANSIENT) != 0)
        put_attribute(out, "AllowCreate", "true");
    put_attribute(out, "Format", format);
    fputs("></samlp:NameIDPolicy>", out);
}

static char *request_xml(const saml_request_t *self, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = memory_need(open_memstream(&text, ret_len), "a SAML request");

    fputs("<samlp:AuthnRequest xmlns:samlp=\"" SAML_PROTOCOL "\"", out);
    put_attribute(out, "AssertionConsumerServiceURL", self->acs);
    put_attribute(out, "Destination", self->destination);
    if (self->force)
        put_attribute(out, "ForceAuthn", "true");
    put_attribute(out, "ID", self->id);
    fputs(" IssueInstant=\"", out);
    saml_put_time(out, self->now_s);
    fputs("\" ProtocolBinding=\"" SAML_BINDING "HTTP-POST\" Version=\"2.0\">"
          "<saml:Issuer xmlns:saml=\"urn:oasis:names:tc:SAML:2.0:assertion\">",
          out);
    saml_put_xml(out, self->entity_id);
    fputs("</saml:Issuer>", out);
    put_policy(out, self->nameid_format);
    fputs("</samlp:AuthnRequest>", out);
    fclose(out);
    return memory_need(text, "a SAML request");
}

/* What is signed (SAML bindings 3.4.4.1): these three, in this order, as they stand in the URL. */
static char *query_of(const saml_request_t *self, const char *message, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = memory_need(open_memstream(&text, ret_len), "a SAML request");

    fputs("SAMLRequest=", out);
    saml_put_encoded(out, message);
    fputs("&RelayState=", out);
    saml_put_encoded(out, self->relay_state);
    fputs("&SigAlg=", out);
    saml_put_encoded(out, RSA_SHA256);
    fclose(out);
    return memory_need(text, "a SAML request");
}

char *saml_request_url(const saml_request_t *self)
{
    size_t len = 0;
    _cleanup_(free_mem) char *xml = request_xml(self, &len);
    _cleanup_(free_mem) char *message = saml_deflate(xml, len);
    _cleanup_(free_mem) char *query = message ? query_of(self, message, &len) : NULL;
    _cleanup_(free_mem) char *signature = query ? saml_signature(self->key_pem, query, len) : NULL;
    _cleanup_(free_mem) char *url = NULL;
    FILE *out;

    if (!signature)
        return NULL;
    out = memory_need(open_memstream(&url, &len), "a SAML request");
    fprintf(out, "%s%c%s&Signature=", self->destination, strchr(self->destination, '?') ? '&' : '?',
            query);
    saml_put_encoded(out, signature);
    fclose(out);
    return url && len <= SAML_LOCATION_MAX ? take(url) : NULL;
}
