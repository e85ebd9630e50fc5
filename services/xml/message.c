#include "services/xml/message.h"
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "services/xml/moment.h"

#include <inttypes.h>
#include <string.h>

#define FORMAT_ENTITY "urn:oasis:names:tc:SAML:2.0:nameid-format:entity"

int message_refuse(problem_t *problem, const char *why)
{
    return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the message %s", why);
}

int message_refuse_other(problem_t *problem, const char *why, const char *came, const char *want)
{
    return problem_add(problem, ERR_SAML_MESSAGE, NULL, "the message %s %s, not %s", why,
                       came ? quote(came).text : "(none, or no plain text)", quote(want).text);
}

int message_refuse_time(problem_t *problem, const char *why, const char *attribute, int64_t ms,
                        const expect_t *expect)
{
    int64_t ahead_s = (ms - expect->now_ms) / 1000;

    return problem_add(problem, ERR_SAML_MESSAGE, NULL,
                       "the message %s: see %s, which is %" PRId64 " s %s by the clock here: are "
                       "both clocks right?",
                       why, attribute, ahead_s < 0 ? -ahead_s : ahead_s,
                       ahead_s < 0 ? "ago" : "ahead");
}

/* ---- places ---- */

static bool is_within(const xmlNode *node, const xmlNode *top)
{
    while (node && node != top)
        node = node->parent;
    return top && node;
}

/* Is it encrypted in a place where nothing may be? Of what is in an EncryptedAssertion encrypted.c
 * judges the shape. */
static bool is_encrypted(const message_t *self, const xmlNode *node)
{
    return node->ns
           && ((!strcmp((const char *)node->ns->href, NS_XENC) && !is_within(node, self->encrypted))
               || element_is(node, NS_ASSERTION, "EncryptedID")
               || element_is(node, NS_ASSERTION, "EncryptedAttribute")
               || element_is(node, NS_PROTOCOL, "NewEncryptedID"));
}

static bool is_message(const xmlNode *node)
{
    return element_is(node, NS_PROTOCOL, "Response")
           || element_is(node, NS_PROTOCOL, "LogoutRequest")
           || element_is(node, NS_PROTOCOL, "LogoutResponse")
           || element_is(node, NS_PROTOCOL, "ArtifactResponse");
}

/* Is it where the schemas have it: behind the Issuer, and first where there is none? */
static bool follows_issuer(const xmlNode *signature)
{
    const xmlNode *parent = signature->parent;
    xmlNodePtr first = element_first(parent);

    return element_children(parent, NS_ASSERTION, "Issuer", NULL)
               ? element_is(first, NS_ASSERTION, "Issuer") && element_next(first) == signature
               : first == signature;
}

static int note_signature(message_t *self, xmlNodePtr node, problem_t *problem)
{
    xmlNodePtr *place = node->parent == self->root ? &self->signature
                        : self->assertion && node->parent == self->assertion
                            ? &self->assertion_signature
                            : NULL;

    if (!place)
        return message_refuse(problem, "has a signature in another place than its own and that of "
                                       "its assertion");
    if (*place)
        return message_refuse(problem, "has several signatures in one place");
    if (!follows_issuer(node))
        return message_refuse(problem, "has a signature that does not follow the Issuer");
    *place = node;
    return 0;
}

static int note_assertion(message_t *self, xmlNodePtr node, problem_t *problem)
{
    bool is_plain = element_is(node, NS_ASSERTION, "Assertion");

    if (node->parent != self->root || !element_is(self->root, NS_PROTOCOL, "Response"))
        return message_refuse(problem, "has an assertion in another place than that of a response");
    if (self->assertion || self->encrypted)
        return message_refuse(problem, "has several assertions");
    *(is_plain ? &self->assertion : &self->encrypted) = node;
    return 0;
}

static int note_element(message_t *self, xmlNodePtr node, problem_t *problem)
{
    if (is_encrypted(self, node))
        return message_refuse(problem, "has an encrypted part that is no assertion: that is not "
                                       "supported");
    if (element_is(node, NS_DSIG, "Signature"))
        return note_signature(self, node, problem);
    if (element_is(node, NS_ASSERTION, "Assertion")
        || element_is(node, NS_ASSERTION, "EncryptedAssertion"))
        return note_assertion(self, node, problem);
    return is_message(node) ? message_refuse(problem, "has another message in it") : 0;
}

/* Only what a Response is made of, in the schema's order: extensions say nothing that is asked for
 * here, and hide much. */
static int check_children(const xmlNode *root, problem_t *problem)
{
    static const struct {
        const char *ns, *name;
    } parts[] = {{NS_ASSERTION, "Issuer"},
                 {NS_DSIG, "Signature"},
                 {NS_PROTOCOL, "Status"},
                 {NS_ASSERTION, "Assertion"},
                 {NS_ASSERTION, "EncryptedAssertion"}};
    size_t i = 0;

    for (xmlNodePtr one = element_first(root); one; one = element_next(one)) {
        while (i < LEN(parts) && !element_is(one, parts[i].ns, parts[i].name))
            i++;
        if (i == LEN(parts))
            return message_refuse(problem, "has another part than Issuer, Signature, Status and "
                                           "Assertion, or not in this order");
    }
    return element_has_only_elements(root) ? 0
                                           : message_refuse(problem, "has text between its parts");
}

int message_scan(message_t *self, xmlDocPtr document, const char *ns, const char *name,
                 problem_t *problem)
{
    int r = 0;

    *self = (message_t){.root = xmlDocGetRootElement(document)};
    if (!element_is(self->root, ns, name))
        return message_refuse(problem, "is of another kind than is expected");
    if (!ids_are_unique(document))
        return message_refuse(problem, "has an ID twice, or too many of them");
    if (element_is(self->root, NS_ASSERTION, "Assertion"))
        self->assertion = self->root;
    for (xmlNodePtr node = element_walk(self->root, self->root); node && !r;
         node = element_walk(self->root, node))
        r = note_element(self, node, problem);
    if (!r && element_is(self->root, NS_PROTOCOL, "Response"))
        r = check_children(self->root, problem);
    return r;
}

/* ---- heads ---- */

int message_time(const xmlNode *element, const char *name, int64_t *ret_ms, problem_t *problem)
{
    const char *text = element_attribute(element, name);

    if (text && moment_parse(text, ret_ms))
        return 0;
    return problem_add(problem, ERR_SAML_MESSAGE, NULL,
                       "%s of the message is missing, or no time in UTC", name);
}

int message_check_issuer(const xmlNode *parent, const char *entity_id, bool is_required,
                         problem_t *problem)
{
    _cleanup_(free_mem) char *text = NULL;
    const char *format;
    xmlNodePtr issuer;
    int count = element_children(parent, NS_ASSERTION, "Issuer", &issuer);

    if (!count && !is_required)
        return 0;
    if (count != 1)
        return message_refuse(problem, "has no Issuer, or several");
    format = element_attribute(issuer, "Format");
    text = element_text(issuer, SIZE_MAX); /* of a message that has its bound */
    if (text && !strcmp(text, entity_id) && (!format || !strcmp(format, FORMAT_ENTITY)))
        return 0;
    return message_refuse_other(problem, "is of the issuer", text, entity_id);
}

static int check_destination(const xmlNode *root, const char *want, bool is_required,
                             problem_t *problem)
{
    const char *destination = element_attribute(root, "Destination");

    if (!destination && !is_required)
        return 0;
    if (destination && !strcmp(destination, want))
        return 0;
    return message_refuse_other(problem, "has the destination", destination, want);
}

int message_check_head(const xmlNode *root, const expect_t *expect, const char *entity_id,
                       bool is_signed, problem_t *problem)
{
    const char *version = element_attribute(root, "Version"), *id = element_attribute(root, "ID");
    int64_t issued = 0;
    int r;

    if (!version || strcmp(version, "2.0") != 0)
        return message_refuse(problem, "is of another version than 2.0");
    if (!id || !id_is_plain(id))
        return message_refuse(problem,
                              "has no ID of ASCII letters, digits, \"_\", \"-\" and \".\"");
    r = message_time(root, "IssueInstant", &issued, problem);
    if (r)
        return r;
    if (!expect_has_begun(expect, issued))
        return message_refuse_time(problem, "is from the future", "IssueInstant", issued, expect);
    r = check_destination(root, expect->destination, is_signed, problem);
    return r ? r : message_check_issuer(root, entity_id, is_signed, problem);
}

bool message_answers(const xmlNode *element, const expect_t *expect)
{
    const char *to = element_attribute(element, "InResponseTo");

    return *expect->in_response_to ? to && !strcmp(to, expect->in_response_to) : !to;
}
