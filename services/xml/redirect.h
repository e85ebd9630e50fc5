/* A message in a query string, with its signature (SAML bindings 3.4.4.1). */
#pragma once

#include "services/xml/keys.h"

#include <jansson.h>

/* relay: {request | response, relay_state, sig_alg, signature}, the values of SAMLRequest or
 * SAMLResponse, RelayState, SigAlg and Signature as they stood in the query string, still encoded;
 * relay_state only where there was one. Verify that, and that the message is the one that is
 * signed. 0 | ERR_SAML_MESSAGE | -ENOMEM. */
int redirect_verify(const json_t *relay, const char *message, const keys_t *keys,
                    problem_t *problem);
