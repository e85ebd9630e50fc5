/* X.509: reading uploaded certificates, and a small local authority. OpenSSL only, no state. */
#pragma once

#include "common/base/err.h"

#include <jansson.h>
#include <stdbool.h>

/* Parse a chain (leaf first) and its key; check that they belong together and that each
 * certificate signed the one before it. Adds the read-only columns of tls_certificate to document.
 * 0 | ERR_CERT_PEM (told in problem) | fault. */
int x509_describe(const char *chain_pem, const char *key_pem, json_t *document, problem_t *problem);

/* Parse one CA certificate; adds the read-only columns of certificate_authority to document.
 * 0 | ERR_CERT_PEM (told in problem) | fault. */
int x509_describe_authority(const char *pem, json_t *document, problem_t *problem);

/* A new authority: EC P-256, 10 years. The caller frees both. 0 | -EIO. */
int x509_make_authority(const char *name, char **ret_certificate_pem, char **ret_key_pem);

/* A server certificate for domain (may be *.domain), signed by the authority: EC P-256, a year: browsers
 * refuse more than 398 days, Mozilla's guidelines more than 366. The chain is the leaf alone: who trusts the authority has it. 0 | -EIO. */
int x509_issue(const char *authority_pem, const char *authority_key_pem, const char *domain,
               char **ret_chain_pem, char **ret_key_pem);

/* A self-signed RSA-2048 certificate for signing SAML requests, 35 years. 0 | -EIO. */
int x509_make_signer(const char *name, char **ret_certificate_pem, char **ret_key_pem);

/* Shall the first certificate of a chain that x509_issue made be issued anew? It ends within 30 days, was made for longer
 * than x509_issue makes them now, or is unreadable. */
bool x509_is_due(const char *chain_pem);
