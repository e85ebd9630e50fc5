/* What the files of the saml engine share. */
#pragma once

#include "services/identity/person.h"
#include "services/identity/saml.h"
#include "services/identity/sign_in_words.h"

#include <stdio.h>

enum {
    SAML_LOCATION_MAX = 8 << 10, /* of a URL that a browser is sent to */
    SAML_SKEW_MS = 60000,        /* between the provider's clock and ours */
    SAML_LIFE_MAX_S = 24 * 3600, /* of an assertion: it is remembered for as long */
    SAML_MESSAGE_MAX = 64 << 10, /* of base64 */
    SAML_TEXT_MAX = 255,         /* of names and addresses; longer ones are left out */
    SAML_GROUPS = 1000,
    SAML_RELAY_MAX = 512, /* of a provider's RelayState; 80 is what it may have */
    SAML_QUERY_MAX = 16 << 10,
    SAML_LOGOUT_S = 300, /* that a LogoutRequest of ours is valid */
    SAML_ASK_MS = 8000
};

#define SAML_BINDING            "urn:oasis:names:tc:SAML:2.0:bindings:"
#define SAML_PROTOCOL           "urn:oasis:names:tc:SAML:2.0:protocol"
#define SAML_ASSERTION          "urn:oasis:names:tc:SAML:2.0:assertion"
#define SAML_RSA_SHA256         "http://www.w3.org/2001/04/xmldsig-more#rsa-sha256"
#define SAML_SUCCESS            "urn:oasis:names:tc:SAML:2.0:status:Success"
#define SAML_FORMAT_TRANSIENT   "urn:oasis:names:tc:SAML:2.0:nameid-format:transient"
#define SAML_FORMAT_EMAIL       "urn:oasis:names:tc:SAML:1.1:nameid-format:emailAddress"
#define SAML_FORMAT_UNSPECIFIED "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"

/* ---- saml_write.c: texts that are made ---- */

/* Write text as an element's text, as the value of an attribute, and as an attribute with a space
 * before it, in canonical form (XML-C14N 2.3). */
void saml_put_xml(FILE *out, const char *text);
void saml_put_value(FILE *out, const char *text);
void saml_put_attribute(FILE *out, const char *name, const char *value);
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

/* ---- saml_send.c: messages of ours on their way ---- */

/* Who it is from: a message's first part. */
void saml_put_issuer(FILE *out, const char *entity_id);

/* Where a message goes, how, and what goes with it. */
typedef struct saml_sending {
    bool is_response, is_post;
    const char *destination; /* an https:// URL without a fragment; NULL: nowhere */
    const char *relay_state; /* NULL: none */
    const char *key_pem, *certificate_pem;
    const char *id; /* the message's */
} saml_sending_t;

/* How the browser brings a message, signed: by the redirect binding (SAML bindings 3.4.4.1)
 * {"location": URL}, by POST (3.5.4) {"post": {url, name, message, relay_state?}}. xml: of an
 * element in canonical form, whose first part is its Issuer. A new reference. NULL: key or
 * certificate are none, or the URL is too long. */
json_t *saml_deliver(const saml_sending_t *self, const char *xml, size_t len);

/* ---- saml_sign.c ---- */

/* The same XML, signed in itself (SAML core 5.4): the signature stands behind its Issuer. The
 * caller frees it. NULL: key or certificate are none, or there is no Issuer. */
char *saml_sign(const saml_sending_t *self, const char *xml, size_t len);

/* ---- saml_metadata.c ---- */

/* Write the certificate as metadata and signatures have it. False: it is none. */
bool saml_put_certificate(FILE *out, const char *pem);

/* ---- saml_request.c ---- */

/* What an AuthnRequest says. */
typedef struct saml_request {
    const char *id, *destination, *acs, *entity_id, *nameid_format;
    bool force;
    int64_t now_s;
} saml_request_t;

/* Its XML; the caller frees it. */
char *saml_request_xml(const saml_request_t *self, size_t *ret_len);

/* ---- saml_encryption.c ---- */

/* The key of an assertion's content, base64, which a private key of the route opens: each of them
 * is tried, whichever opens it. other_pem: of the pair that is not in use; "" or NULL: there is
 * none.
 * encrypted: {key, digest, mgf1, bytes} as postern-saml says. Where it cannot be opened, whatever
 * the reason, it is a random one. secret_free frees it. NULL: the route has no such key, or
 * encrypted is none. */
char *saml_content_key(const char *key_pem, const char *other_pem, const json_t *encrypted);
/* Write the EncryptionMethods of a KeyDescriptor (SAML metadata 2.4.1.1), the best ones first. CBC
 * is not among them, though it is taken of signed responses: nobody should begin with it. */
void saml_put_encryption_methods(FILE *out);

/* ---- saml_person.c ---- */

/* Who a response is about, as postern-saml answers it; *out is for person_done also where it is
 * refused. NULL | which rule it breaks. */
const char *saml_person(const json_t *said, const char *account, const char *entity_id,
                        int64_t now_s, person_t *out);

/* What makes a name another one than the same text elsewhere (SAML core 2.2.2, 8.3): its Format,
 * NameQualifier and SPNameQualifier, each as SHA-256 in hexadecimal, or "-" for what is meant where
 * it is left out: the format unspecified, the provider that says it, and this service provider
 * (entity_id). absent: what is written for a part that is left out, "-" or "%". */
void saml_name_form(const json_t *said, const char *entity_id, const char *absent,
                    char out[SAML_NAME_FORM_SIZE]);

/* Do the provider's metadata still have the key that signed what a session is of? session:
 * session_at_provider of its person. A session of a version that did not note the key is of none.
 * False: it cannot be said, since a postern-saml of an older version has read the metadata. */
bool saml_key_is_known(const json_t *metadata, bool *ret_known, const char *session);

/* ---- saml_logout.c ---- */

/* What a LogoutRequest or LogoutResponse of ours says. */
typedef struct saml_leaving {
    const char *id, *destination, *entity_id;
    const char *session;        /* of a request: session_at_provider of who signs out */
    const char *in_response_to; /* of a response */
    int64_t now_s;
} saml_leaving_t;

/* Its XML; the caller frees it. NULL, of a request: it is not known who signs out. */
char *saml_logout_request(const saml_leaving_t *self, size_t *ret_len);
/* The same of a response: that it is done. */
char *saml_logout_response(const saml_leaving_t *self, size_t *ret_len);

/* What a message of logout says, as postern-saml answers it; *out is borrowed from said. NULL |
 * which rule it breaks. */
const char *saml_logout_read(const json_t *said, const char *entity_id, bool is_request,
                             int64_t now_s, saml_logout_t *out);

/* ---- saml.c: the flow ---- */

enum { SAML_WHY_SIZE = 448 /* the reasons of postern-saml, and a few words before them */ };

typedef struct saml_flow {
    provider_operation_t operation;
    json_t *config, *question;
    const char *verb; /* of the question that was asked last */
    char *acs, *entity_id, *relay_state, *request_id, *message, *account;
    char metadata_hash[WORDS_HEX_SIZE];
    json_t *delivery; /* of begin and leave: how the browser brings a request (saml_deliver) */
    char *place;      /* of ended: where the provider takes answers; NULL: nowhere */
    bool is_post;     /* by POST, and not by redirect */
    person_t person;  /* of refresh and leave who was signed in, of callback who is */
    json_t *logout;   /* of ended: the message that came (saml_message_read) */
    json_t *said;     /* and what postern-saml says of it, from which ended is borrowed */
    saml_logout_t ended;
    int64_t now_s;
    int64_t asked_s; /* of callback: since when the person must have signed in at the provider */
    bool is_forced, is_decrypting;
    struct provider_cache *cache;
    char why[SAML_WHY_SIZE];
} saml_flow_t;

/* End the flow with this step; why is made printable. Returns step. */
provider_step_t saml_fail(saml_flow_t *self, provider_step_t step, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* A text of the module's document, "" where it has none; borrowed. */
const char *saml_config(const saml_flow_t *self, const char *name);

/* ---- saml_question.c ---- */

/* Ask where the provider takes messages; whether the response is good; the same of a message of
 * logout; and of a response again, whose assertion is encrypted as encrypted says. PROVIDER_FETCH,
 * or the outcome. */
provider_step_t saml_ask_metadata(saml_flow_t *self);
provider_step_t saml_ask_verdict(saml_flow_t *self);
provider_step_t saml_ask_logout_verdict(saml_flow_t *self);
provider_step_t saml_ask_decrypted(saml_flow_t *self, const json_t *encrypted);
/* Was the last question one for metadata? */
bool saml_asked_metadata(const saml_flow_t *self);
/* What an answer that is none means; PROVIDER_DONE: it is one. */
provider_step_t saml_judge_code(saml_flow_t *self, const fetched_t *answer);
/* Free the last question; it is wiped where nobody else has it still. */
void saml_drop_question(saml_flow_t *self);
