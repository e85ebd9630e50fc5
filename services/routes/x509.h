/* X.509: reading uploaded certificates, and a small local authority. OpenSSL only, no state. */
#pragma once

#include "common/base/err.h"

#include <jansson.h>
#include <openssl/types.h>
#include <stdbool.h>

/* Parse a chain (leaf first) and its key: they must belong together, and each certificate must have
 * signed the one before it. Adds the read-only columns of tls_certificate to document. 0 |
 * ERR_CERT_PEM (the reason is in problem) | fault. */
int x509_describe(const char *chain_pem, const char *key_pem, json_t *document, problem_t *problem);

/* Parse one CA certificate; adds the read-only columns of certificate_authority to document. 0 |
 * ERR_CERT_PEM (the reason is in problem) | fault. */
int x509_describe_authority(const char *pem, json_t *document, problem_t *problem);

/* Make an authority: EC P-256, 10 years. The caller frees both texts. 0 | -EIO. */
int x509_make_authority(const char *name, char **ret_certificate_pem, char **ret_key_pem);

/* Issue a server certificate for domain (may be *.domain), signed by the authority: EC P-256, for a
 * year, because browsers refuse more than 398 days and Mozilla's guidelines allow 366. The chain is
 * the leaf alone: clients that trust the authority have its certificate. 0 | -EIO. */
int x509_issue(const char *authority_pem, const char *authority_key_pem, const char *domain,
               char **ret_chain_pem, char **ret_key_pem);

/* Make a self-signed certificate of the key, which signs SAML requests, for 35 years. The caller
 * frees both texts. 0 | -EIO. */
int x509_make_signer(EVP_PKEY *key, const char *name, char **ret_certificate_pem,
                     char **ret_key_pem);

/* The same, of a key to which SAML providers encrypt what they send. 0 | -EIO. */
int x509_make_recipient(EVP_PKEY *key, const char *name, char **ret_certificate_pem,
                        char **ret_key_pem);

/* Is a certificate of x509_issue due for renewal? The first one of the chain ends within 30 days,
 * was made for longer than x509_issue makes them now, or is unreadable. */
bool x509_is_due(const char *chain_pem);

/* Whole days until the certificate ends, rounded down; negative where it has ended. 0: it is
 * unreadable. */
int x509_days_left(const char *pem);
