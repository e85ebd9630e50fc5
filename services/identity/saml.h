/* The engine of the module saml, and what of SAML is said outside of it. It parses no XML: what a
 * response or a provider's metadata says, postern-saml answers (services/saml/README.md). */
#pragma once

#include "services/identity/provider.h"

/* Metadata of a route as a service provider (SAML metadata 2.4.4), from the module's document and
 * the two URLs of provider_ask_t. The caller frees it. NULL: the certificate is none. */
char *saml_metadata(const json_t *config, const char *entity_id, const char *acs);

/* Where an unsolicited response leads: RelayState ("": it has none) is a path, or a URL at that
 * host, and below home, the path of the route ("": all paths). NULL: anything else; else borrowed,
 * perhaps from home. */
const char *saml_target(const char *relay_state, const char *host, const char *home);
