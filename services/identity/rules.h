/* Who may enter, by the rules of a route's sign-in module. */
#pragma once

#include "services/identity/provider.h"

/* Do the module's rules ("oauth", "oidc", "saml" and its document) admit this person, whom the
 * provider vouches for? If not, why is one line that says whom and by which kind of rule, without a
 * secret. No I/O. */
bool sign_in_admits(const char *module, const json_t *config, const person_t *who, char *why,
                    size_t size);
