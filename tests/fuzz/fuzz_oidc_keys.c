/* A key set of an OpenID provider, and a token that none of its keys has signed. */
#include "services/identity/oidc_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char *const names[] = {"RS256", "PS512", "ES256", "ES384", "ES512", "EdDSA"};
    static const unsigned char signature[256] = {1};
    oidc_keys_t *keys = NULL;

    if (oidc_keys_read(&keys, (const char *)data, size)) {
        if (keys)
            abort();
        return 0;
    }
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const oidc_algorithm_t *algorithm = oidc_algorithm_find(names[i]);

        if (oidc_keys_verify(keys, algorithm, NULL, "data", 4, signature,
                             algorithm->signature ? algorithm->signature : sizeof(signature))
            == OIDC_VERIFIED)
            abort();
    }
    oidc_keys_free(&keys);
    return 0;
}
