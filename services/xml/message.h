/* A message of SAML as a document: where its parts are, and that there is one of each. */
#pragma once

#include "services/xml/document.h"
#include "services/xml/expect.h"

/* Nodes are the document's; NULL: there is none. */
typedef struct message {
    xmlNodePtr root;
    xmlNodePtr signature;           /* of root */
    xmlNodePtr assertion;           /* of a Response; root itself where that is an Assertion */
    xmlNodePtr assertion_signature; /* of an assertion in a Response */
    xmlNodePtr encrypted;           /* an EncryptedAssertion, in the place of the assertion */
} message_t;

/* Look through the whole document. Its root has to be this element; a signature stands in the root
 * or in the one assertion, one each; a Response has at most one assertion, which may be encrypted;
 * no other element of the document is an Assertion, a Signature, or a message, or encrypted; all
 * IDs differ. 0 | ERR_SAML_MESSAGE. */
int message_scan(message_t *self, xmlDocPtr document, const char *ns, const char *name,
                 problem_t *problem);

/* What all messages have in common: Version, ID, IssueInstant, Destination, Issuer. is_signed: the
 * message itself is, so Destination and Issuer must be there. 0 | ERR_SAML_MESSAGE. */
int message_check_head(const xmlNode *root, const expect_t *expect, const char *entity_id,
                       bool is_signed, problem_t *problem);

/* The Issuer of a message or an assertion is the entity, and no other one stands beside it. 0 |
 * ERR_SAML_MESSAGE. */
int message_check_issuer(const xmlNode *parent, const char *entity_id, bool is_required,
                         problem_t *problem);

/* InResponseTo of this element answers our request, or is not there where we made none. */
bool message_answers(const xmlNode *element, const expect_t *expect);

/* Refuse: "the message ...". Returns ERR_SAML_MESSAGE. */
int message_refuse(problem_t *problem, const char *why);

/* The same, of a text that came and the one that was expected: "the message ... 'came', not
 * 'want'". came NULL: there is no such text. */
int message_refuse_other(problem_t *problem, const char *why, const char *came, const char *want);

/* The same, of a time (an attribute, and of what) that is over or has not come: how far the clock
 * here is from it. */
int message_refuse_time(problem_t *problem, const char *why, const char *attribute, int64_t ms,
                        const expect_t *expect);

/* The time of an attribute. 0 | ERR_SAML_MESSAGE: it is not there, or none. */
int message_time(const xmlNode *element, const char *name, int64_t *ret_ms, problem_t *problem);
