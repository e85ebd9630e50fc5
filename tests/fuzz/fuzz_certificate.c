/* What lies where a webhook signer's certificate should, and what its issuer is said to have: none
 * of it is good, because no authority vouches for it. */
#include "services/fetch/certificate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The bytes are PEM as far as a NUL, and then an issuer's certificate. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const signer_url_t url = {.region = "us-east-1"};
    static X509_STORE *authorities;
    const uint8_t *nul = size ? memchr(data, '\0', size) : NULL;
    size_t len = nul ? (size_t)(nul - data) : size;
    char issuer_url[CERTIFICATE_ISSUER_URL_MAX + 1];
    const char *why;
    signer_told_t told;
    certificate_t *certificate = certificate_read(data, len, &why);

    if (!authorities)
        authorities = X509_STORE_new();
    if (!certificate)
        return 0;
    if (certificate_issuer_url(certificate, issuer_url) && strncmp(issuer_url, "http://", 7) != 0)
        abort();
    if (nul)
        certificate_add_issuer(certificate, nul + 1, size - len - 1);
    if (certificate_judge(certificate, &url, authorities, 1390000000, &why) == CERTIFICATE_GOOD)
        abort();
    signer_told_init(&told, 1, SIGNER_KEY, "");
    if (certificate_tell(certificate, &told) && told.key_len > SIGNER_KEY_MAX)
        abort();
    certificate_destroy(&certificate);
    return 0;
}
