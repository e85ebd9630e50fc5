#include "services/xml/algorithms.h"
#include "common/base/cleanup.h"

#include <string.h>

static const algorithm_t signatures[] = {
    {"http://www.w3.org/2001/04/xmldsig-more#rsa-sha256", "SHA256", KEY_RSA},
    {"http://www.w3.org/2001/04/xmldsig-more#rsa-sha384", "SHA384", KEY_RSA},
    {"http://www.w3.org/2001/04/xmldsig-more#rsa-sha512", "SHA512", KEY_RSA},
    {"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha256", "SHA256", KEY_EC},
    {"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384", "SHA384", KEY_EC},
    {"http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha512", "SHA512", KEY_EC},
};

static const algorithm_t digests[] = {
    {"http://www.w3.org/2001/04/xmlenc#sha256", "SHA256", KEY_RSA},
    {"http://www.w3.org/2001/04/xmldsig-more#sha384", "SHA384", KEY_RSA},
    {"http://www.w3.org/2001/04/xmlenc#sha512", "SHA512", KEY_RSA},
};

static const algorithm_t *algorithm_find(const algorithm_t *rows, size_t count, const char *uri)
{
    for (size_t i = 0; uri && i < count; i++)
        if (!strcmp(rows[i].uri, uri))
            return &rows[i];
    return NULL;
}

const algorithm_t *algorithm_of_signature(const char *uri)
{
    return algorithm_find(signatures, LEN(signatures), uri);
}

const algorithm_t *algorithm_of_digest(const char *uri)
{
    return algorithm_find(digests, LEN(digests), uri);
}
