/* The engine of the module saml, and what of SAML is said outside of it. It parses no XML: what a
 * response or a provider's metadata says, postern-saml answers (services/saml/README.md). */
#pragma once

#include "services/identity/provider.h"

/* Metadata of a route as a service provider (SAML metadata 2.4.4), from the module's document and
 * where the route takes responses and messages of logout. The caller frees it. NULL: the
 * certificate is none. */
char *saml_metadata(const json_t *config, const char *entity_id, const char *acs, const char *slo);

/* Where an unsolicited response leads: RelayState ("": it has none) is a path, or a URL at that
 * host, and below home, the path of the route ("": all paths). NULL: anything else; else borrowed,
 * perhaps from home. */
const char *saml_target(const char *relay_state, const char *host, const char *home);

/* A message of single logout as a browser brought it: by a query string (SAML bindings 3.4), or,
 * where query is NULL, by a form's parameters, {name: [values]} (3.5). *ret_message is a new
 * reference: {binding, kind, message, relay?, relay_state?}, what params of PROVIDER_ENDED is, with
 * relay as saml.verify takes it and relay_state decoded. NULL | what is wrong with it. */
const char *saml_message_read(const char *query, const json_t *params, json_t **ret_message);

enum { SAML_NAME_FORM_SIZE = 3 * 65 };

/* What a message of single logout said that was verified. Texts are borrowed from the flow. */
typedef struct saml_logout {
    bool is_request, is_success; /* is_success: of a response, that the provider has done it */
    const char *issuer;
    /* Of a request: whose sessions end. indexes: an array of texts; empty: all of them. */
    const char *request_id, *name_id;
    char name_form
        [SAML_NAME_FORM_SIZE]; /* saml_name_form, with "%" for each part that is left out */
    const json_t *indexes;
    int64_t issued_ms;
} saml_logout_t;

/* After DONE of PROVIDER_ENDED; borrowed. */
const saml_logout_t *saml_ended(void *flow);
/* The same: how the browser brings the provider the answer that a request's sessions are over,
 * {location: URL} or {post: form} (provider_t). A new reference. NULL: the provider has no place
 * for it, or it cannot be signed. */
json_t *saml_ended_answer(void *flow);
