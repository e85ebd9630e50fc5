#include "services/xml/verify.h"
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "services/xml/assertion.h"
#include "services/xml/encrypted.h"
#include "services/xml/envelope.h"
#include "services/xml/logout.h"
#include "services/xml/message.h"
#include "services/xml/metadata.h"
#include "services/xml/redirect.h"
#include "services/xml/signature.h"

#include <errno.h>
#include <string.h>

enum { CONTENT_KEY_TEXT_MAX = 64 };

#define STATUS_SUCCESS "urn:oasis:names:tc:SAML:2.0:status:Success"

/* What is known of one message while it is judged. */
typedef struct judging {
    const char *text; /* base64 */
    bool is_redirect;
    const json_t *relay; /* NULL: none */
    expect_t expect;
    metadata_t metadata;
    const signing_key_t *signed_by; /* what the answer is taken from; NULL: nothing yet */
    char *xml;
    size_t len;
    unsigned char *content_key; /* NULL: none */
    size_t content_key_len;
} judging_t;

static void judging_done(judging_t *self)
{
    metadata_done(&self->metadata);
    free(take(self->xml));
    free(take(self->content_key));
}

/* ---- what was signed ---- */

/* A fresh document of octets that were verified, which has the same element with the same ID. */
static int parse_octets(const octets_t *octets, const xmlNode *signed_element,
                        xmlDocPtr *ret_document, message_t *ret_message, problem_t *problem)
{
    const char *id = element_attribute(signed_element, "ID"), *fresh;
    int r = document_read(octets->bytes, octets->len, &document_message, ret_document, problem);

    if (!r)
        r = message_scan(ret_message, *ret_document, (const char *)signed_element->ns->href,
                         (const char *)signed_element->name, problem);
    if (r)
        return r;
    fresh = element_attribute(ret_message->root, "ID");
    if (!fresh || strcmp(fresh, id) != 0 || ret_message->signature)
        return message_refuse(problem, "is not what was signed");
    return 0;
}

/* Verify the signature of an element, and make a document of what it covers. Of several the first
 * one covers what is believed. */
static int open_signed(judging_t *self, xmlDocPtr document, xmlNodePtr element,
                       xmlNodePtr signature, xmlDocPtr *ret_document, message_t *ret_message,
                       problem_t *problem)
{
    _cleanup_(octets_done) octets_t octets = {0};
    int r = signature_verify(document, element, signature, &self->metadata.keys, &octets, problem);

    if (r)
        return r;
    if (!self->signed_by)
        self->signed_by = octets.key;
    return parse_octets(&octets, element, ret_document, ret_message, problem);
}

/* ---- responses ---- */

static int check_response_head(const judging_t *self, const xmlNode *root, bool is_signed,
                               problem_t *problem)
{
    const char *status = status_of(root);
    int r = message_check_head(root, &self->expect, self->metadata.entity_id, is_signed, problem);

    if (r)
        return r;
    if (!message_answers(root, &self->expect))
        return message_refuse(problem, "answers another request: see InResponseTo");
    if (!status)
        return message_refuse(problem, "has no status");
    if (strcmp(status, STATUS_SUCCESS) != 0)
        return problem_add(problem, ERR_SAML_MESSAGE, NULL,
                           "the identity provider answered with the status %s, %s",
                           quote(status).text, quote(status_within(root)).text);
    return 0;
}

/* Judge the assertion of a response whose head is good. covered: it, in what a signature of the
 * response covers; NULL: there is none, or it has no assertion. */
static int judge_assertion(judging_t *self, xmlDocPtr document, const message_t *message,
                           xmlNodePtr covered, json_t *answer, problem_t *problem)
{
    _cleanup_(document_free) xmlDocPtr assertion_document = NULL;
    xmlNodePtr judged = covered;
    message_t assertion;
    int r;

    if (message->assertion_signature) {
        r = open_signed(self, document, message->assertion, message->assertion_signature,
                        &assertion_document, &assertion, problem);
        if (r)
            return r;
        if (!judged)
            judged = assertion.root;
    }
    if (!message->assertion || !judged)
        return message_refuse(problem, message->assertion
                                           ? "is not signed: the provider has to sign the "
                                             "response, or the assertion in it"
                                           : "has no assertion");
    json_object_set_new(answer, "signed_by", json_string(self->signed_by->key_sha256));
    return assertion_judge(judged, &self->expect, self->metadata.entity_id, answer, problem);
}

/* An encrypted assertion: without its key the answer is what somebody else has to open for it;
 * with it the assertion is judged as if it had come so. whole: the response, in what its signature
 * covers where it has one. */
static int judge_encrypted(judging_t *self, const message_t *whole, bool is_signed, json_t *answer,
                           problem_t *problem)
{
    _cleanup_(encrypted_done) encrypted_t encrypted = {0};
    _cleanup_(document_free) xmlDocPtr document = NULL;
    message_t message;
    int r = encrypted_read(&encrypted, whole->encrypted, is_signed, problem);

    if (r)
        return r;
    if (!self->content_key) {
        json_object_clear(answer);
        return json_object_set_new(answer, "encrypted", encrypted_describe(&encrypted)) ? -ENOMEM
                                                                                        : 0;
    }
    r = encrypted_open(&encrypted, self->content_key, self->content_key_len, whole->encrypted,
                       &document, problem);
    if (!r)
        r = message_scan(&message, document, NS_PROTOCOL, "Response", problem);
    if (!r && (message.encrypted || message.signature))
        r = message_refuse(problem, "has more in its encrypted assertion than an assertion");
    return r ? r
             : judge_assertion(self, document, &message, is_signed ? message.assertion : NULL,
                               answer, problem);
}

/* Every signature has to hold. Where the response is signed the assertion is taken from what that
 * covers, else from what its own signature covers; the rest of a response that is not signed can
 * deny, but nothing is taken from it. The response's signature comes first: it covers also the
 * KeyInfo of the other one, and what is encrypted. */
static int judge_response(judging_t *self, xmlDocPtr document, json_t *answer, problem_t *problem)
{
    _cleanup_(document_free) xmlDocPtr signed_document = NULL;
    message_t message, whole;
    int r = message_scan(&message, document, NS_PROTOCOL, "Response", problem);
    bool is_signed = !r && message.signature;

    whole = message;
    if (is_signed)
        r = open_signed(self, document, message.root, message.signature, &signed_document, &whole,
                        problem);
    if (!r)
        r = check_response_head(self, whole.root, is_signed, problem);
    if (r)
        return r;
    json_object_set_new(answer, "response_id", json_string(element_attribute(whole.root, "ID")));
    if (whole.encrypted)
        return judge_encrypted(self, &whole, is_signed, answer, problem);
    if (self->content_key)
        return message_refuse(problem, "has nothing that is encrypted");
    return judge_assertion(self, document, &message, is_signed ? whole.assertion : NULL, answer,
                           problem);
}

/* ---- logout ---- */

static int judge_logout(judging_t *self, xmlDocPtr document, json_t *answer, problem_t *problem)
{
    const char *name =
        self->expect.kind == MESSAGE_LOGOUT_REQUEST ? "LogoutRequest" : "LogoutResponse";
    _cleanup_(document_free) xmlDocPtr signed_document = NULL;
    message_t message, covered;
    int r = message_scan(&message, document, NS_PROTOCOL, name, problem);

    if (r)
        return r;
    if (self->is_redirect)
        return message.signature
                   ? message_refuse(problem, "has a signature, and its query string too")
                   : logout_judge(message.root, &self->expect, self->metadata.entity_id, answer,
                                  problem);
    if (!message.signature)
        return message_refuse(problem, "is not signed");
    r = open_signed(self, document, message.root, message.signature, &signed_document, &covered,
                    problem);
    return r ? r
             : logout_judge(covered.root, &self->expect, self->metadata.entity_id, answer, problem);
}

/* ---- the verb ---- */

static int refuse_field(problem_t *problem, const char *field, const char *why)
{
    return problem_add(problem, ERR_INVALID_FIELD, field, "%s", why);
}

static int read_binding(judging_t *self, const json_t *body, problem_t *problem)
{
    const char *binding = field_text(body, "binding", 16);

    self->is_redirect = binding && !strcmp(binding, "redirect");
    self->relay = json_object_get(body, "relay");
    if (!binding || (!self->is_redirect && strcmp(binding, "post") != 0))
        return refuse_field(problem, "binding", "must be post or redirect");
    if (self->is_redirect != json_is_object(self->relay))
        return refuse_field(problem, "relay",
                            "must be an object with redirect, and not there with "
                            "post");
    if (self->is_redirect && self->expect.kind == MESSAGE_RESPONSE)
        return refuse_field(problem, "binding", "must be post for a response");
    return 0;
}

static int read_content_key(judging_t *self, const json_t *body, problem_t *problem)
{
    const char *text = field_text(body, "content_key", CONTENT_KEY_TEXT_MAX);

    if (!json_object_get(body, "content_key"))
        return 0;
    if (!text || !*text
        || !base64_decode(text, strlen(text), &self->content_key, &self->content_key_len))
        return refuse_field(problem, "content_key", "must be base64 of a key");
    return self->expect.kind == MESSAGE_RESPONSE
               ? 0
               : refuse_field(problem, "content_key", "is for responses only");
}

static int read_body(judging_t *self, const json_t *body, problem_t *problem)
{
    static const char *const names[] = {"metadata", "message",     "binding", "relay",
                                        "expect",   "content_key", NULL};
    const char *unknown = field_unknown(body, names);
    const char *metadata = field_text(body, "metadata", document_metadata.bytes);
    int r;

    self->text = field_text(body, "message", ENVELOPE_TEXT_MAX);
    if (unknown)
        return refuse_field(problem, unknown, "is no field of saml.verify");
    if (!metadata)
        return refuse_field(problem, "metadata", "must be a text of at most 262144 bytes");
    if (!self->text)
        return refuse_field(problem, "message", "must be a text of at most 65536 bytes");
    r = expect_read(&self->expect, json_object_get(body, "expect"), problem);
    if (!r)
        r = read_binding(self, body, problem);
    if (!r)
        r = read_content_key(self, body, problem);
    return r ? r : metadata_read(&self->metadata, metadata, strlen(metadata), problem);
}

static int judge_message(judging_t *self, json_t *answer, problem_t *problem)
{
    _cleanup_(document_free) xmlDocPtr document = NULL;
    int r = 0;

    if (self->is_redirect)
        r = redirect_verify(self->relay, self->text, &self->metadata.keys, problem);
    if (!r)
        r = envelope_open(self->text, self->is_redirect, &self->xml, &self->len, problem);
    if (!r)
        r = document_read(self->xml, self->len, &document_message, &document, problem);
    if (r)
        return r;
    return self->expect.kind == MESSAGE_RESPONSE ? judge_response(self, document, answer, problem)
                                                 : judge_logout(self, document, answer, problem);
}

int verify_message(const json_t *body, json_t **ret_answer, problem_t *problem)
{
    _cleanup_(judging_done) judging_t judging = {0};
    _cleanup_(json_clear_ref) json_t *answer = json_object();
    int r = read_body(&judging, body, problem);

    if (!r)
        r = judge_message(&judging, answer, problem);
    if (!r)
        *ret_answer = take(answer);
    return r;
}
