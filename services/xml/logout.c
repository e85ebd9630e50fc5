#include "services/xml/logout.h"
#include "common/base/cleanup.h"
#include "services/xml/assertion.h"
#include "services/xml/message.h"
#include "services/xml/moment.h"

#include <string.h>

enum {
    INDEX_MAX = 512,
    INDEXES_MAX = 64,
    REQUEST_LIVES_MS = 5 * 60000 /* one that does not say until when it holds */
};

/* Is it made of what the schema has: a code, then perhaps a message and details? */
static bool status_is_plain(const xmlNode *status)
{
    const xmlNode *one = element_first(status);

    if (!element_is(one, NS_PROTOCOL, "StatusCode"))
        return false;
    one = element_next(one);
    if (element_is(one, NS_PROTOCOL, "StatusMessage"))
        one = element_next(one);
    if (element_is(one, NS_PROTOCOL, "StatusDetail"))
        one = element_next(one);
    return !one;
}

const char *status_of(const xmlNode *root)
{
    xmlNodePtr status, code;
    const char *value;

    if (element_children(root, NS_PROTOCOL, "Status", &status) != 1
        || element_children(status, NS_PROTOCOL, "StatusCode", &code) != 1
        || !status_is_plain(status))
        return NULL;
    value = element_attribute(code, "Value");
    return value && *value && strlen(value) <= INDEX_MAX ? value : NULL;
}

const char *status_within(const xmlNode *root)
{
    xmlNodePtr status, code, within;

    return element_children(root, NS_PROTOCOL, "Status", &status) == 1
                   && element_children(status, NS_PROTOCOL, "StatusCode", &code) == 1
                   && element_children(code, NS_PROTOCOL, "StatusCode", &within) == 1
               ? element_attribute(within, "Value")
               : NULL;
}

static int check_times(const xmlNode *root, const expect_t *expect, json_t *answer,
                       problem_t *problem)
{
    int64_t issued = 0, issued_last, end;
    int r = message_time(root, "IssueInstant", &issued, problem);

    issued_last = issued + (r ? 0 : moment_doubt_ms(element_attribute(root, "IssueInstant")));
    end = issued + REQUEST_LIVES_MS;
    if (!r && element_attribute(root, "NotOnOrAfter"))
        r = message_time(root, "NotOnOrAfter", &end, problem);
    if (!r && expect_is_over(expect, end))
        r = message_refuse_time(problem, "came too late", "IssueInstant and NotOnOrAfter", end,
                                expect);
    json_object_set_new(answer, "issued_ms", json_integer(issued_last));
    json_object_set_new(answer, "not_on_or_after_ms", json_integer(end));
    return r;
}

static int take_indexes(const xmlNode *root, json_t *answer, problem_t *problem)
{
    json_t *list = json_array();

    json_object_set_new(answer, "session_indexes", list);
    for (xmlNodePtr one = element_first(root); one; one = element_next(one)) {
        _cleanup_(free_mem) char *text = NULL;

        if (!element_is(one, NS_PROTOCOL, "SessionIndex"))
            continue;
        text = element_text(one, INDEX_MAX);
        if (!text || json_array_size(list) == INDEXES_MAX)
            return message_refuse(problem, "has more than 64 SessionIndex, or one of more than 512 "
                                           "bytes");
        if (!assertion_text_is_plain(text))
            return message_refuse(problem, "has a SessionIndex that is empty, or has control "
                                           "characters or white space around it");
        json_array_append_new(list, json_string(text));
    }
    return 0;
}

static int judge_request(const xmlNode *root, const expect_t *expect, json_t *answer,
                         problem_t *problem)
{
    int r = check_times(root, expect, answer, problem);

    if (!r)
        r = assertion_take_name(root, answer, problem);
    if (!r)
        r = take_indexes(root, answer, problem);
    json_object_set_new(answer, "request_id", json_string(element_attribute(root, "ID")));
    return r;
}

static int judge_response(const xmlNode *root, const expect_t *expect, json_t *answer,
                          problem_t *problem)
{
    const char *status = status_of(root);

    if (!message_answers(root, expect))
        return message_refuse(problem, "answers another request: see InResponseTo");
    if (!status)
        return message_refuse(problem, "has no status");
    json_object_set_new(answer, "response_id", json_string(element_attribute(root, "ID")));
    json_object_set_new(answer, "status", json_string(status));
    return 0;
}

int logout_judge(const xmlNode *root, const expect_t *expect, const char *entity_id, json_t *answer,
                 problem_t *problem)
{
    int r = message_check_head(root, expect, entity_id, true, problem);

    json_object_set_new(answer, "issuer", json_string(entity_id));
    if (r)
        return r;
    return expect->kind == MESSAGE_LOGOUT_REQUEST ? judge_request(root, expect, answer, problem)
                                                  : judge_response(root, expect, answer, problem);
}
