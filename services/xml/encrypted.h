/* An encrypted assertion (SAML core 6.1, XML Encryption 1.1): its shape, which key somebody else
 * has to open, and with what that had in it the assertion itself. A private key never comes
 * here. */
#pragma once

#include "services/xml/document.h"

#include <jansson.h>

struct cipher;

/* Bytes are owned: encrypted_done. */
typedef struct encrypted {
    const struct cipher *cipher; /* of the assertion */
    const char *digest, *mgf1;   /* of RSA-OAEP: "SHA1" | "SHA256" */
    unsigned char *wrapped;      /* the content key, as it is encrypted */
    size_t wrapped_len;
    unsigned char *content;
    size_t content_len;
} encrypted_t;

/* Read an EncryptedAssertion: one EncryptedData, one EncryptedKey, in its KeyInfo or behind it.
 * RSA-OAEP, digest and MGF1 with SHA-1 or SHA-256, without parameters; AES-128 or AES-256, with
 * GCM, or with CBC where is_signed: a signature that held already covers all of it. Nothing is
 * decrypted. 0 | ERR_SAML_MESSAGE | -ENOMEM; encrypted_done also then. */
int encrypted_read(encrypted_t *self, const xmlNode *element, bool is_signed, problem_t *problem);

/* Free the bytes. */
void encrypted_done(encrypted_t *self);

/* What the holder of the private key has to open: {key: base64, digest, mgf1, bytes: of what is in
 * it}. */
json_t *encrypted_describe(const encrypted_t *self);

/* Decrypt with a content key, and put the assertion in the place of the element, which stands
 * below the root of its document and loses its children: *ret_document is a new one. 0 |
 * ERR_SAML_MESSAGE, with the same words whatever failed: key, padding, tag, or what came out is no
 * element. */
int encrypted_open(const encrypted_t *self, const unsigned char *key, size_t key_len,
                   xmlNodePtr element, xmlDocPtr *ret_document, problem_t *problem);
