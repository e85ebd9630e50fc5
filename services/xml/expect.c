#include "services/xml/expect.h"
#include "common/base/cleanup.h"
#include "services/xml/document.h"

#include <string.h>

enum { URL_MAX = 2048, ENTITY_MAX = 1024, ID_TEXT_MAX = 255, FORMAT_MAX = 255 };

const char *field_text(const json_t *object, const char *name, size_t max)
{
    const json_t *value = json_object_get(object, name);
    const char *text = value ? json_string_value(value) : "";

    return text && strlen(text) <= max && (!value || strlen(text) == json_string_length(value))
               ? text
               : NULL;
}

const char *field_unknown(const json_t *object, const char *const *names)
{
    const char *key;
    json_t *value;

    json_object_foreach((json_t *)object, key, value)
    {
        size_t i = 0;

        while (names[i] && strcmp(names[i], key) != 0)
            i++;
        if (!names[i])
            return key;
    }
    return NULL;
}

static int refuse(problem_t *problem, const char *field, const char *why)
{
    return problem_add(problem, ERR_INVALID_FIELD, field, "%s", why);
}

static bool read_kind(expect_t *self, const char *kind)
{
    static const char *const kinds[] = {[MESSAGE_RESPONSE] = "response",
                                        [MESSAGE_LOGOUT_REQUEST] = "logout_request",
                                        [MESSAGE_LOGOUT_RESPONSE] = "logout_response"};

    for (size_t i = 0; kind && i < LEN(kinds); i++)
        if (!strcmp(kinds[i], kind)) {
            self->kind = (message_kind_t)i;
            return true;
        }
    return false;
}

static bool read_flag(const json_t *from, const char *name, bool *ret_flag)
{
    const json_t *value = json_object_get(from, name);

    *ret_flag = json_is_true(value);
    return !value || json_is_boolean(value);
}

static int read_texts(expect_t *self, const json_t *from, problem_t *problem)
{
    const struct {
        const char **text;
        const char *name;
        size_t max;
    } fields[] = {
        {&self->destination, "destination", URL_MAX},
        {&self->recipient, "recipient", URL_MAX},
        {&self->audience, "audience", ENTITY_MAX},
        {&self->in_response_to, "in_response_to", ID_TEXT_MAX},
        {&self->nameid_format, "nameid_format", FORMAT_MAX},
    };

    for (size_t i = 0; i < LEN(fields); i++) {
        *fields[i].text = field_text(from, fields[i].name, fields[i].max);
        if (!*fields[i].text)
            return refuse(problem, fields[i].name, "must be a text, and not a long one");
    }
    return 0;
}

static int read_times(expect_t *self, const json_t *from, problem_t *problem)
{
    const json_t *now = json_object_get(from, "now_ms"), *skew = json_object_get(from, "skew_ms");

    self->now_ms = json_integer_value(now);
    self->skew_ms = json_integer_value(skew);
    if (!json_is_integer(now) || self->now_ms <= 0 || self->now_ms > INT64_MAX / 2)
        return refuse(problem, "now_ms", "must be a time in milliseconds since 1970");
    if (!json_is_integer(skew) || self->skew_ms < 0 || self->skew_ms > EXPECT_SKEW_MAX_MS)
        return refuse(problem, "skew_ms", "must be from 0 to 300000");
    return 0;
}

/* An empty text that is compared with must not be what a message has left out. */
static int check_needed(const expect_t *self, problem_t *problem)
{
    if (!*self->destination)
        return refuse(problem, "destination", "must not be empty");
    if (self->kind == MESSAGE_RESPONSE && !*self->recipient)
        return refuse(problem, "recipient", "must not be empty");
    if (self->kind == MESSAGE_RESPONSE && !*self->audience)
        return refuse(problem, "audience", "must not be empty");
    if (!*self->in_response_to
        && (self->kind == MESSAGE_LOGOUT_RESPONSE
            || (self->kind == MESSAGE_RESPONSE && !self->allow_unsolicited)))
        return refuse(problem, "in_response_to", "may be empty with allow_unsolicited only");
    return 0;
}

int expect_read(expect_t *self, const json_t *from, problem_t *problem)
{
    static const char *const names[] = {
        "kind",   "destination", "recipient",     "audience",          "in_response_to",
        "now_ms", "skew_ms",     "nameid_format", "allow_unsolicited", "require_authn_statement",
        NULL};
    const char *unknown;
    int r;

    *self = (expect_t){0};
    if (!json_is_object(from))
        return refuse(problem, "expect", "must be an object");
    unknown = field_unknown(from, names);
    if (unknown)
        return refuse(problem, unknown, "is no field of expect");
    if (!read_kind(self, field_text(from, "kind", FORMAT_MAX)))
        return refuse(problem, "kind", "must be response, logout_request or logout_response");
    if (!read_flag(from, "allow_unsolicited", &self->allow_unsolicited)
        || !read_flag(from, "require_authn_statement", &self->require_authn_statement))
        return refuse(problem, "expect", "has a field that must be true or false");
    r = read_texts(self, from, problem);
    if (!r)
        r = read_times(self, from, problem);
    return r ? r : check_needed(self, problem);
}

bool expect_has_begun(const expect_t *self, int64_t ms)
{
    return ms <= self->now_ms + self->skew_ms;
}

bool expect_is_over(const expect_t *self, int64_t ms)
{
    return ms <= self->now_ms - self->skew_ms;
}
