/* Messages of single logout (SAML core 3.7, profiles 4.4) that a route sends, and what one that
 * came says. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/saml_internal.h"

#include <string.h>

static const char *text_of(const json_t *object, const char *key)
{
    const char *text = json_string_value(json_object_get(object, key));

    return text ? text : "";
}

static void put_if_said(FILE *out, const char *name, const char *value)
{
    if (*value)
        saml_put_attribute(out, name, value);
}

/* The name as the provider gave it, with all that makes it this one (SAML core 3.3.4). */
static void put_name(FILE *out, const json_t *session)
{
    fputs("<saml:NameID xmlns:saml=\"" SAML_ASSERTION "\"", out);
    put_if_said(out, "Format", text_of(session, "name_id_format"));
    put_if_said(out, "NameQualifier", text_of(session, "name_qualifier"));
    put_if_said(out, "SPNameQualifier", text_of(session, "sp_name_qualifier"));
    fputc('>', out);
    saml_put_xml(out, text_of(session, "name_id"));
    fputs("</saml:NameID>", out);
    if (!*text_of(session, "session_index"))
        return;
    fputs("<samlp:SessionIndex>", out);
    saml_put_xml(out, text_of(session, "session_index"));
    fputs("</samlp:SessionIndex>", out);
}

char *saml_logout_request(const saml_leaving_t *self, size_t *ret_len)
{
    _cleanup_(json_clear_ref) json_t *session = json_loads(self->session, 0, NULL);
    char *text = NULL;
    FILE *out;

    if (!*text_of(session, "name_id"))
        return NULL;
    out = memory_need(open_memstream(&text, ret_len), "a SAML message");
    fputs("<samlp:LogoutRequest xmlns:samlp=\"" SAML_PROTOCOL "\"", out);
    saml_put_attribute(out, "Destination", self->destination);
    saml_put_attribute(out, "ID", self->id);
    fputs(" IssueInstant=\"", out);
    saml_put_time(out, self->now_s);
    fputs("\" NotOnOrAfter=\"", out);
    saml_put_time(out, self->now_s + SAML_LOGOUT_S);
    fputs("\" Reason=\"urn:oasis:names:tc:SAML:2.0:logout:user\" Version=\"2.0\">", out);
    saml_put_issuer(out, self->entity_id);
    put_name(out, session);
    fputs("</samlp:LogoutRequest>", out);
    fclose(out);
    return memory_need(text, "a SAML message");
}

char *saml_logout_response(const saml_leaving_t *self, size_t *ret_len)
{
    char *text = NULL;
    FILE *out = memory_need(open_memstream(&text, ret_len), "a SAML message");

    fputs("<samlp:LogoutResponse xmlns:samlp=\"" SAML_PROTOCOL "\"", out);
    saml_put_attribute(out, "Destination", self->destination);
    saml_put_attribute(out, "ID", self->id);
    saml_put_attribute(out, "InResponseTo", self->in_response_to);
    fputs(" IssueInstant=\"", out);
    saml_put_time(out, self->now_s);
    fputs("\" Version=\"2.0\">", out);
    saml_put_issuer(out, self->entity_id);
    fputs("<samlp:Status><samlp:StatusCode Value=\"" SAML_SUCCESS
          "\"></samlp:StatusCode></samlp:Status></samlp:LogoutResponse>",
          out);
    fclose(out);
    return memory_need(text, "a SAML message");
}

/* ---- what came ---- */

/* A part of the name that the request leaves out stands for any: some providers say less there than
 * in their assertions, and who was to be signed out must not stay. */
static const char *request_fault(const json_t *said, const char *entity_id, int64_t now_s,
                                 saml_logout_t *out)
{
    int64_t until_s = json_integer_value(json_object_get(said, "not_on_or_after_ms")) / 1000;

    out->request_id = text_of(said, "request_id");
    out->name_id = text_of(said, "name_id");
    saml_name_form(said, entity_id, "%", out->name_form);
    out->indexes = json_object_get(said, "session_indexes");
    out->issued_ms = json_integer_value(json_object_get(said, "issued_ms"));
    if (!*out->request_id || !*out->name_id || !json_is_array(out->indexes) || out->issued_ms <= 0
        || until_s <= 0)
        return "the answer about it says too little";
    if (until_s > now_s + SAML_LIFE_MAX_S)
        return "it is valid for more than a day";
    return NULL;
}

const char *saml_logout_read(const json_t *said, const char *entity_id, bool is_request,
                             int64_t now_s, saml_logout_t *out)
{
    *out = (saml_logout_t){.is_request = is_request, .issuer = text_of(said, "issuer")};
    if (!*out->issuer)
        return "the answer about it says too little";
    if (is_request)
        return request_fault(said, entity_id, now_s, out);
    out->is_success = !strcmp(text_of(said, "status"), SAML_SUCCESS);
    return NULL;
}
