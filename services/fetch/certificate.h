/* Is this the certificate of a webhook's signer? No I/O and no clock in here: what was fetched
 * comes in, and what else would be needed is said. Good is a certificate that authorities of this
 * machine vouch for at this time, for a server of one of the names that the URL stands for
 * (common/codec/signer.h), with an RSA key. */
#pragma once

#include "common/codec/signer.h"

#include <openssl/x509.h>

enum { CERTIFICATE_BYTES_MAX = 32 * 1024, CERTIFICATES_MAX = 5, CERTIFICATE_ISSUER_URL_MAX = 255 };

typedef struct certificate certificate_t;

/* Of PEM text: the first is the signer's, up to four others are its issuers'. NULL: why says what
 * is wrong, a constant. */
certificate_t *certificate_read(const void *pem, size_t len, const char **ret_why);
void certificate_destroy(certificate_t **self_p);

/* Add the certificate of an issuer, DER or PEM. False: it is none. */
bool certificate_add_issuer(certificate_t *self, const void *bytes, size_t len);

/* Where the certificate whose issuer is missing says that its issuer's is (RFC 5280 4.2.2.1): the
 * first http URL without a port. False: it does not say. */
bool certificate_issuer_url(const certificate_t *self, char out[CERTIFICATE_ISSUER_URL_MAX + 1]);

typedef enum certificate_verdict {
    CERTIFICATE_GOOD,
    CERTIFICATE_LACKS_ISSUER, /* nothing else is wrong: ask again with an issuer's certificate */
    CERTIFICATE_BAD
} certificate_verdict_t;

/* authorities: whom this machine trusts. now_s: since 1970. ret_why: a constant, of what is not
 * good. */
certificate_verdict_t certificate_judge(const certificate_t *self, const signer_url_t *url,
                                        X509_STORE *authorities, int64_t now_s,
                                        const char **ret_why);

/* The key and the last second of a good certificate. False: its key is too large. */
bool certificate_tell(const certificate_t *self, signer_told_t *out);
