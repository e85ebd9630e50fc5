/* What the files of the saml engine share. */
#pragma once

#include "services/identity/saml.h"

#include <stdio.h>

enum {
    SAML_LOCATION_MAX = 8 << 10, /* of a URL that a browser is sent to */
    SAML_SKEW_MS = 60000,        /* between the provider's clock and ours */
    SAML_LIFE_MAX_S = 24 * 3600, /* of an assertion: it is remembered for as long */
    SAML_MESSAGE_MAX = 64 << 10, /* of base64 */
    SAML_TEXT_MAX = 255,         /* of names and addresses; longer ones are left out */
    SAML_GROUPS = 1000,
    SAML_ASK_MS = 8000
};

#define SAML_BINDING            "urn:oasis:names:tc:SAML:2.0:bindings:"
#define SAML_PROTOCOL           "urn:oasis:names:tc:SAML:2.0:protocol"
#define SAML_FORMAT_TRANSIENT   "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
#define SAML_FORMAT_EMAIL       "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
#define SAML_FORMAT_UNSPECIFIED "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"

/* ---- saml_write.c: texts that are made ---- */

/* Write text as the value of an attribute or as an element's text, in canonical form (XML-C14N
 * 2.3). */
void saml_put_xml(FILE *out, const char *text);
/* Write bytes as base64. */
void saml_put_base64(FILE *out, const void *bytes, size_t len);
/* Write text percent-encoded: all but letters, digits and -._~. */
void saml_put_encoded(FILE *out, const char *text);
/* Write a moment, UTC, as xs:dateTime. */
void saml_put_time(FILE *out, int64_t at_s);
/* RSA (PKCS #1 v1.5) with SHA-256 over text, as base64; the caller frees it. NULL: the key is
 * none, or no RSA key. */
char *saml_signature(const char *key_pem, const char *text, size_t len);
/* base64 of the raw DEFLATE of a text (SAML bindings 3.4.4.1); the caller frees it. NULL: no
 * memory. */
char *saml_deflate(const char *text, size_t len);

/* ---- saml_request.c ---- */

/* What an AuthnRequest says. */
typedef struct saml_request {
    const char *id, *destination, *acs, *entity_id, *nameid_format, *key_pem, *relay_state;
    bool force;
    int64_t now_s;
} saml_request_t;

/* The URL that brings it, signed, to a destination of the redirect binding; the caller frees it.
 * NULL: the key is none, or the URL is too long. */
char *saml_request_url(const saml_request_t *self);

/* ---- saml_encryption.c ---- */

/* The key of an assertion's content, base64, which a route's private key opens; encrypted: {key,
 * digest, mgf1, bytes} as postern-saml says. Where it cannot be opened, whatever the reason, it is
 * a random one. secret_free frees it. NULL: the route has no such key, or encrypted is none. */
char *saml_content_key(const char *key_pem, const json_t *encrypted);
/* Write the EncryptionMethods of a KeyDescriptor (SAML metadata 2.4.1.1), the best ones first. CBC
 * is not among them, though it is taken of signed responses: nobody should begin with it. */
void saml_put_encryption_methods(FILE *out);

/* ---- saml_person.c ---- */

/* Who a response is about, as postern-saml answers it; *out is for person_done also where it is
 * refused. NULL | which rule it breaks. */
const char *saml_person(const json_t *said, const char *account, int64_t now_s, person_t *out);
