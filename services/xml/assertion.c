#include "services/xml/assertion.h"
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "services/xml/attributes.h"
#include "services/xml/message.h"

#include <string.h>

#define METHOD_BEARER      "urn:oasis:names:tc:SAML:2.0:cm:bearer"
#define FORMAT_UNSPECIFIED "urn:oasis:names:tc:SAML:1.1:nameid-format:unspecified"

enum { NAME_MAX_BYTES = 1024, AUDIENCE_MAX = 1024, INDEX_MAX = 512, CONFIRMATIONS_MAX = 8 };

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

/* ---- who ---- */

bool assertion_text_is_plain(const char *text)
{
    size_t len = strlen(text);

    for (size_t i = 0; i < len; i++)
        if ((unsigned char)text[i] < ' ' || text[i] == 0x7f)
            return false;
    return len && text[0] != ' ' && text[len - 1] != ' ';
}

static const char *qualifier(const xmlNode *name_id, const char *attribute)
{
    const char *text = element_attribute(name_id, attribute);

    return text && strlen(text) <= NAME_MAX_BYTES ? text : text ? NULL : "";
}

int assertion_take_name(const xmlNode *parent, json_t *answer, problem_t *problem)
{
    _cleanup_(free_mem) char *name = NULL;
    const char *by, *at, *format;
    xmlNodePtr name_id;

    if (element_children(parent, NS_ASSERTION, "NameID", &name_id) != 1
        || element_children(parent, NS_ASSERTION, "BaseID", NULL))
        return message_refuse(problem, "has no NameID, or several");
    name = element_text(name_id, NAME_MAX_BYTES);
    if (!name || !assertion_text_is_plain(name))
        return message_refuse(problem, "has a NameID that is empty, longer than 1024 bytes, or has "
                                       "elements, control characters or white space around it");
    format = element_attribute(name_id, "Format");
    by = qualifier(name_id, "NameQualifier");
    at = qualifier(name_id, "SPNameQualifier");
    if (!by || !at || (format && strlen(format) > NAME_MAX_BYTES))
        return message_refuse(problem, "has a NameID with an attribute of more than 1024 bytes");
    json_object_set_new(answer, "name_id", json_string(name));
    json_object_set_new(answer, "name_id_format",
                        json_string(format ? format : FORMAT_UNSPECIFIED));
    json_object_set_new(answer, "name_qualifier", json_string(by));
    json_object_set_new(answer, "sp_name_qualifier", json_string(at));
    return 0;
}

static int check_format(const json_t *answer, const expect_t *expect, problem_t *problem)
{
    const char *format = json_string_value(json_object_get(answer, "name_id_format"));

    if (!*expect->nameid_format || !strcmp(expect->nameid_format, FORMAT_UNSPECIFIED)
        || !strcmp(format, expect->nameid_format))
        return 0;
    return message_refuse_other(problem, "has a NameID of the format", format,
                                expect->nameid_format);
}

/* ---- SubjectConfirmation ---- */

/* Does a bearer confirmation count, and until when? 0 | ERR_SAML_MESSAGE. */
static int check_confirmation(const xmlNode *confirmation, const expect_t *expect, int64_t *ret_end,
                              problem_t *problem)
{
    const char *recipient;
    problem_t unused = {0};
    xmlNodePtr data;
    int r;

    if (element_children(confirmation, NS_ASSERTION, "SubjectConfirmationData", &data) != 1)
        return message_refuse(problem, "has no SubjectConfirmationData");
    recipient = element_attribute(data, "Recipient");
    if (element_attribute(data, "NotBefore"))
        return message_refuse(problem, "has a bearer confirmation with NotBefore");
    if (!recipient || strcmp(recipient, expect->recipient) != 0)
        return message_refuse_other(problem, "is for another recipient:", recipient,
                                    expect->recipient);
    if (!message_answers(data, expect))
        return message_refuse(problem, "answers another request: see InResponseTo of "
                                       "SubjectConfirmationData");
    r = message_time(data, "NotOnOrAfter", ret_end, &unused);
    problem_done(&unused);
    if (r)
        return message_refuse(problem, "has a bearer confirmation without NotOnOrAfter");
    return expect_is_over(expect, *ret_end)
               ? message_refuse_time(problem, "came too late",
                                     "NotOnOrAfter of SubjectConfirmationData", *ret_end, expect)
               : 0;
}

static bool is_bearer(const xmlNode *confirmation)
{
    const char *method = element_attribute(confirmation, "Method");

    return element_is(confirmation, NS_ASSERTION, "SubjectConfirmation") && method
           && !strcmp(method, METHOD_BEARER);
}

/* One bearer confirmation has to hold; those of other methods do not count. Where none does, the
 * last one says why. */
static int check_confirmations(const xmlNode *subject, const expect_t *expect, int64_t *ret_end,
                               problem_t *problem)
{
    _cleanup_(problem_done) problem_t why = {0};
    bool is_any = false;

    if (element_children(subject, NS_ASSERTION, "SubjectConfirmation", NULL) > CONFIRMATIONS_MAX)
        return message_refuse(problem, "has more than 8 confirmations");
    for (xmlNodePtr one = element_first(subject); one; one = element_next(one)) {
        if (!is_bearer(one))
            continue;
        problem_done(&why);
        why = (problem_t){0};
        is_any = true;
        if (!check_confirmation(one, expect, ret_end, &why))
            return 0;
    }
    return is_any ? problem_add(problem, why.code, NULL, "%s", why.msg)
                  : message_refuse(problem, "has no bearer confirmation");
}

static int take_subject(const xmlNode *assertion, const expect_t *expect, json_t *answer,
                        int64_t *ret_end, problem_t *problem)
{
    xmlNodePtr subject;
    int r;

    if (element_children(assertion, NS_ASSERTION, "Subject", &subject) != 1)
        return message_refuse(problem, "has no Subject, or several");
    r = assertion_take_name(subject, answer, problem);
    if (!r)
        r = check_format(answer, expect, problem);
    return r ? r : check_confirmations(subject, expect, ret_end, problem);
}

/* ---- Conditions ---- */

static bool names_audience(const xmlNode *restriction, const char *audience)
{
    bool found = false;

    for (xmlNodePtr one = element_first(restriction); one && !found; one = element_next(one)) {
        _cleanup_(free_mem) char *text =
            element_is(one, NS_ASSERTION, "Audience") ? element_text(one, AUDIENCE_MAX) : NULL;

        found = text && !strcmp(text, audience);
    }
    return found;
}

static int refuse_audience(const xmlNode *restriction, const char *audience, problem_t *problem)
{
    xmlNodePtr first = element_first(restriction);
    /* of a message that has its bound: the log quotes the beginning */
    _cleanup_(free_mem) char *text = first ? element_text(first, SIZE_MAX) : NULL;

    return message_refuse_other(problem, "is for another audience:", text, audience);
}

/* Every AudienceRestriction has to name us, and there is at least one. Conditions that are not
 * known make an assertion invalid (core 2.5.1.1). */
static int check_audiences(const xmlNode *conditions, const char *audience, problem_t *problem)
{
    int restrictions = 0;

    for (xmlNodePtr one = element_first(conditions); one; one = element_next(one)) {
        if (element_is(one, NS_ASSERTION, "AudienceRestriction")) {
            restrictions++;
            if (!names_audience(one, audience))
                return refuse_audience(one, audience, problem);
        } else if (!element_is(one, NS_ASSERTION, "OneTimeUse")
                   && !element_is(one, NS_ASSERTION, "ProxyRestriction")) {
            return message_refuse(problem, "has a condition that is not known");
        }
    }
    return restrictions ? 0 : message_refuse(problem, "has no AudienceRestriction");
}

static int check_times(const xmlNode *conditions, const expect_t *expect, int64_t *end,
                       problem_t *problem)
{
    int64_t time;
    int r = 0;

    if (element_attribute(conditions, "NotBefore")) {
        r = message_time(conditions, "NotBefore", &time, problem);
        if (!r && !expect_has_begun(expect, time))
            r = message_refuse_time(problem, "came too early", "NotBefore of Conditions", time,
                                    expect);
    }
    if (!r && element_attribute(conditions, "NotOnOrAfter")) {
        r = message_time(conditions, "NotOnOrAfter", &time, problem);
        if (!r && expect_is_over(expect, time))
            r = message_refuse_time(problem, "came too late", "NotOnOrAfter of Conditions", time,
                                    expect);
        if (!r)
            *end = earlier(*end, time);
    }
    return r;
}

static int check_conditions(const xmlNode *assertion, const expect_t *expect, int64_t *end,
                            problem_t *problem)
{
    xmlNodePtr conditions;
    int r;

    if (element_children(assertion, NS_ASSERTION, "Conditions", &conditions) != 1)
        return message_refuse(problem, "has no Conditions, or several");
    r = check_times(conditions, expect, end, problem);
    return r ? r : check_audiences(conditions, expect->audience, problem);
}

/* ---- AuthnStatement ---- */

static int take_session_end(const xmlNode *statement, const expect_t *expect, int64_t *ret_end,
                            problem_t *problem)
{
    int r;

    if (!element_attribute(statement, "SessionNotOnOrAfter"))
        return 0;
    r = message_time(statement, "SessionNotOnOrAfter", ret_end, problem);
    if (!r && expect_is_over(expect, *ret_end))
        r = message_refuse_time(problem, "is of a session that is over", "SessionNotOnOrAfter",
                                *ret_end, expect);
    return r;
}

static int take_statement(const xmlNode *assertion, const expect_t *expect, json_t *answer,
                          problem_t *problem)
{
    xmlNodePtr statement;
    int count = element_children(assertion, NS_ASSERTION, "AuthnStatement", &statement);
    const char *index = statement ? element_attribute(statement, "SessionIndex") : NULL;
    int64_t instant = 0, end = 0;
    int r = 0;

    if (count > 1 || (!count && expect->require_authn_statement))
        return message_refuse(problem, "has no AuthnStatement, or several");
    if (index && strlen(index) > INDEX_MAX)
        return message_refuse(problem, "has a SessionIndex of more than 512 bytes");
    if (index && *index && !assertion_text_is_plain(index))
        return message_refuse(problem, "has a SessionIndex with control characters, or white space "
                                       "around it");
    if (statement)
        r = message_time(statement, "AuthnInstant", &instant, problem);
    if (!r && statement && !expect_has_begun(expect, instant))
        r = message_refuse_time(problem, "is from the future", "AuthnInstant", instant, expect);
    if (!r && statement)
        r = take_session_end(statement, expect, &end, problem);
    json_object_set_new(answer, "session_index", json_string(index ? index : ""));
    json_object_set_new(answer, "authn_instant_ms", json_integer(instant));
    json_object_set_new(answer, "session_not_on_or_after_ms", json_integer(end));
    return r;
}

/* ---- all of it ---- */

static int check_head(const xmlNode *assertion, const expect_t *expect, const char *entity_id,
                      json_t *answer, problem_t *problem)
{
    const char *version = element_attribute(assertion, "Version");
    const char *id = element_attribute(assertion, "ID");
    int64_t issued = 0;
    int r;

    if (!version || strcmp(version, "2.0") != 0)
        return message_refuse(problem, "has an assertion of another version than 2.0");
    if (!id || !id_is_plain(id))
        return message_refuse(problem, "has an assertion without an ID of ASCII letters, digits, "
                                       "\"_\", \"-\" and \".\"");
    r = message_time(assertion, "IssueInstant", &issued, problem);
    if (!r && !expect_has_begun(expect, issued))
        r = message_refuse_time(problem, "has an assertion from the future", "IssueInstant", issued,
                                expect);
    json_object_set_new(answer, "issued_ms", json_integer(issued));
    return r ? r : message_check_issuer(assertion, entity_id, true, problem);
}

/* What an assertion is made of, in the schema's order; message_scan judges where a signature is. */
static int check_parts(const xmlNode *assertion, problem_t *problem)
{
    static const char *const names[] = {"Issuer", "Subject", "Conditions", "Advice"};
    static const char *const statements[] = {"AuthnStatement", "AttributeStatement",
                                             "AuthzDecisionStatement"};
    size_t i = 0;

    for (xmlNodePtr one = element_first(assertion); one; one = element_next(one)) {
        size_t j = 0;

        if (element_is(one, NS_DSIG, "Signature"))
            continue;
        while (i < LEN(names) && !element_is(one, NS_ASSERTION, names[i]))
            i++;
        while (i == LEN(names) && j < LEN(statements)
               && !element_is(one, NS_ASSERTION, statements[j]))
            j++;
        if (j == LEN(statements))
            return message_refuse(problem, "has a part of an assertion that is not known, or is "
                                           "not where the schema has it");
    }
    return 0;
}

int assertion_judge(const xmlNode *assertion, const expect_t *expect, const char *entity_id,
                    json_t *answer, problem_t *problem)
{
    int64_t end = 0;
    int r = check_head(assertion, expect, entity_id, answer, problem);

    if (!r)
        r = check_parts(assertion, problem);
    if (!r)
        r = take_subject(assertion, expect, answer, &end, problem);
    if (!r)
        r = check_conditions(assertion, expect, &end, problem);
    if (!r)
        r = take_statement(assertion, expect, answer, problem);
    if (!r)
        r = attributes_take(assertion, answer, problem);
    if (r)
        return r;
    json_object_set_new(answer, "issuer", json_string(entity_id));
    json_object_set_new(answer, "assertion_id", json_string(element_attribute(assertion, "ID")));
    json_object_set_new(answer, "not_on_or_after_ms", json_integer(end));
    return 0;
}
