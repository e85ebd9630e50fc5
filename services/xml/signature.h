/* Signatures. What one covers is returned as the octets that were digested, and only what a fresh
 * parser makes of those may be believed: the document that was verified has parts that no signature
 * covers. */
#pragma once

#include "services/xml/keys.h"

#include <libxml/tree.h>
#include <stddef.h>

typedef struct octets {
    char *bytes; /* ends with NUL */
    size_t len;
    const signing_key_t *key; /* that verified them, borrowed */
} octets_t;

/* Free the bytes. */
void octets_done(octets_t *self);

/* Once a process, after document_libraries_start. 0 | fault. */
int signature_library_start(void);

/* Verify the signature that stands in the element it signs (XMLDSig): one reference, to that
 * element's ID; transforms enveloped-signature and then exclusive canonicalization without
 * comments, which also the SignedInfo has; RSA (PKCS #1 v1.5) or ECDSA, and digests, with SHA-256,
 * SHA-384 or SHA-512. Its KeyInfo is removed from the document unread. 0: *ret_octets is the
 * caller's | ERR_SAML_MESSAGE | -ENOMEM. */
int signature_verify(xmlDocPtr document, xmlNodePtr signed_element, xmlNodePtr signature,
                     const keys_t *keys, octets_t *ret_octets, problem_t *problem);

/* A signature over the query string, of the redirect binding (SAML bindings 3.4.4.1): over octets,
 * by the algorithm with this name, of these bytes, which of ECDSA are r and s one after the other.
 * 0 | ERR_SAML_MESSAGE | -ENOMEM. */
int signature_verify_octets(const char *octets, size_t len, const char *algorithm,
                            const unsigned char *bytes, size_t bytes_len, const keys_t *keys,
                            problem_t *problem);
