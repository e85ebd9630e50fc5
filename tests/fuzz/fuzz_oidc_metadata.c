/* Metadata of an OpenID provider: what is taken leads to https only, and to a URL of a sign-in. */
#include "services/identity/oidc_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ISSUER "https://op.example.test"

static void check_url(const char *url)
{
    if (url && (strncmp(url, "https://", 8) != 0 || strpbrk(url, "\r\n #")))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    oidc_metadata_t metadata;
    char *url;

    memcpy(text, data, size);
    text[size] = '\0';
    if (!oidc_metadata_read(&metadata, text, size, ISSUER)) {
        check_url(metadata.authorization);
        check_url(metadata.token);
        check_url(metadata.keys);
        check_url(metadata.userinfo);
        if (!metadata.authorization || !metadata.token || !metadata.keys)
            abort();
        oidc_metadata_done(&metadata);
    } else if (metadata.authorization || metadata.end_session) {
        abort();
    }
    url = oidc_end_session_url(text, size, ISSUER, "c", "t", "https://a/", "s");
    check_url(url);
    free(url);
    provider_cache_life_s(text);
    free(text);
    return 0;
}
