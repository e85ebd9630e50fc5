/* The AuthnRequest (SAML core 3.4.1). */
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <string.h>

/* Of transient names nothing can be created (SAML core 3.4.1.1). */
static void put_policy(FILE *out, const char *format)
{
    if (!format || !*format)
        return;
    fputs("<samlp:NameIDPolicy", out);
    if (strcmp(format, SAML_FORMAT_TRANSIENT) != 0)
        saml_put_attribute(out, "AllowCreate", "true");
    saml_put_attribute(out, "Format", format);
    fputs("></samlp:NameIDPolicy>", out);
}

char *saml_request_xml(const saml_request_t *self, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = memory_need(open_memstream(&text, ret_len), "a SAML request");

    fputs("<samlp:AuthnRequest xmlns:samlp=\"" SAML_PROTOCOL "\"", out);
    saml_put_attribute(out, "AssertionConsumerServiceURL", self->acs);
    saml_put_attribute(out, "Destination", self->destination);
    if (self->force)
        saml_put_attribute(out, "ForceAuthn", "true");
    saml_put_attribute(out, "ID", self->id);
    fputs(" IssueInstant=\"", out);
    saml_put_time(out, self->now_s);
    fputs("\" ProtocolBinding=\"" SAML_BINDING "HTTP-POST\" Version=\"2.0\">", out);
    saml_put_issuer(out, self->entity_id);
    put_policy(out, self->nameid_format);
    fputs("</samlp:AuthnRequest>", out);
    fclose(out);
    return memory_need(text, "a SAML request");
}
