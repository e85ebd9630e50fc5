#include "services/xml/metadata.h"
#include "common/base/cleanup.h"
#include "services/xml/document.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { ENTITY_ID_MAX = 1024, LOCATION_MAX = 2048, SERVICES_MAX = 16 };

static int refuse(problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SAML_METADATA, NULL, "the metadata %s", why);
}

/* Does a list with spaces between name SAML 2.0? */
static bool speaks_saml2(const char *list)
{
    size_t len = strlen(NS_PROTOCOL);

    for (const char *at = list; at && (at = strstr(at, NS_PROTOCOL)); at += len)
        if ((at == list || at[-1] == ' ') && (!at[len] || at[len] == ' '))
            return true;
    return false;
}

/* https://host..., of bytes that stand in a URL as they are: it becomes a Location header. */
static bool location_is_good(const char *location)
{
    const char *host = location + strlen("https://");

    if (strncmp(location, "https://", strlen("https://")) != 0 || strlen(location) > LOCATION_MAX
        || !*host || strchr("/?#:@", *host) || strchr(location, '#'))
        return false;
    for (const char *at = location; *at; at++)
        if (*at <= ' ' || *at >= 0x7f || strchr("\"<>\\^`{|}", *at))
            return false;
    return true;
}

static json_t *endpoint_of(const xmlNode *element)
{
    const char *binding = element_attribute(element, "Binding");
    const char *location = element_attribute(element, "Location");
    const char *response = element_attribute(element, "ResponseLocation");

    if (!binding || !*binding || strlen(binding) > ENTITY_ID_MAX || !location
        || !location_is_good(location) || (response && !location_is_good(response)))
        return NULL;
    return json_pack("{s:s, s:s, s:s}", "binding", binding, "location", location,
                     "response_location", response ? response : location);
}

/* Endpoints of a kind. NULL: one is not good, or there are too many. */
static json_t *endpoints_of(const xmlNode *descriptor, const char *name)
{
    _cleanup_(json_clear_ref) json_t *list = json_array();

    for (xmlNodePtr one = element_first(descriptor); one; one = element_next(one)) {
        json_t *endpoint;

        if (!element_is(one, NS_METADATA, name))
            continue;
        endpoint = json_array_size(list) < SERVICES_MAX ? endpoint_of(one) : NULL;
        if (!endpoint || json_array_append_new(list, endpoint))
            return NULL;
    }
    return take(list);
}

static int read_endpoints(metadata_t *self, const xmlNode *descriptor, problem_t *problem)
{
    self->sso = endpoints_of(descriptor, "SingleSignOnService");
    self->slo = endpoints_of(descriptor, "SingleLogoutService");
    if (!self->sso || !self->slo)
        return refuse(problem, "has a SingleSignOnService or SingleLogoutService without Binding, "
                               "or whose Location is not an https:// URL, or more than 16 of them");
    return json_array_size(self->sso) ? 0 : refuse(problem, "has no SingleSignOnService");
}

static int read_descriptor(metadata_t *self, const xmlNode *descriptor, problem_t *problem)
{
    const char *wants = element_attribute(descriptor, "WantAuthnRequestsSigned");
    int r;

    if (!speaks_saml2(element_attribute(descriptor, "protocolSupportEnumeration")))
        return refuse(problem, "does not speak SAML 2.0: see protocolSupportEnumeration");
    self->wants_signed_requests = wants && (!strcmp(wants, "true") || !strcmp(wants, "1"));
    r = read_endpoints(self, descriptor, problem);
    return r ? r : keys_take(&self->keys, descriptor, problem);
}

static int read_entity(metadata_t *self, const xmlNode *root, problem_t *problem)
{
    const char *id = element_attribute(root, "entityID");
    xmlNodePtr descriptor;

    if (!element_is(root, NS_METADATA, "EntityDescriptor"))
        return refuse(problem, element_is(root, NS_METADATA, "EntitiesDescriptor")
                                   ? "is of several entities: give the EntityDescriptor of one"
                                   : "is not an EntityDescriptor of SAML 2.0");
    if (!id || !*id || strlen(id) > ENTITY_ID_MAX)
        return refuse(problem, "lacks an entityID of at most 1024 bytes");
    if (element_children(root, NS_METADATA, "IDPSSODescriptor", &descriptor) != 1)
        return refuse(problem, "has no IDPSSODescriptor, or several");
    self->entity_id = strdup(id);
    return self->entity_id ? read_descriptor(self, descriptor, problem) : -ENOMEM;
}

int metadata_read(metadata_t *self, const char *text, size_t len, problem_t *problem)
{
    _cleanup_(document_free) xmlDocPtr document = NULL;
    int r;

    *self = (metadata_t){0};
    r = document_read(text, len, &document_metadata, &document, problem);
    if (!r)
        r = read_entity(self, xmlDocGetRootElement(document), problem);
    if (r)
        metadata_done(self);
    return r;
}

void metadata_done(metadata_t *self)
{
    free(take(self->entity_id));
    json_clear_ref(&self->sso);
    json_clear_ref(&self->slo);
    keys_done(&self->keys);
}

static json_t *describe_key(const signing_key_t *key)
{
    char kind[32];

    snprintf(kind, sizeof(kind), "%s %d", key->kind == KEY_RSA ? "RSA" : "EC", key->bits);
    return json_pack("{s:s, s:s, s:s, s:I}", "sha256", key->sha256, "key_sha256", key->key_sha256,
                     "key", kind, "not_after_ms", (json_int_t)key->not_after_ms);
}

json_t *metadata_describe(const metadata_t *self)
{
    json_t *certificates = json_array();

    for (int i = 0; i < self->keys.count; i++)
        json_array_append_new(certificates, describe_key(&self->keys.list[i]));
    return json_pack("{s:s, s:O, s:O, s:o, s:b}", "entity_id", self->entity_id, "sso", self->sso,
                     "slo", self->slo, "certificates", certificates, "want_authn_requests_signed",
                     self->wants_signed_requests);
}
