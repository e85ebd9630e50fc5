#include "services/identity/engines.h"

#include <string.h>

/* A module that is not in here cannot be signed in by: it is answered ERR_SIGN_IN_UNAVAILABLE. */
static const provider_t *const engines[] = {
    &provider_oauth,
    &provider_oidc,
    &provider_saml,
    NULL,
};

const provider_t *engine_find(const char *module)
{
    for (const provider_t *const *engine = engines; *engine; engine++)
        if (!strcmp((*engine)->module, module))
            return *engine;
    return NULL;
}
