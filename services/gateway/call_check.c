/* The checks of an API request that need no service: its path, its headers, its query and what kind
 * of body it has. */
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "common/base/utf8.h"
#include "services/gateway/gateway.h"

#include <string.h>
#include <strings.h>

static int check_version(call_t *call)
{
    static const char *const names[] = {"Service-Version", "Postern-Version", "Ngrok-Version"};
    const char *version = NULL;

    for (size_t i = 0; i < LEN(names) && !version; i++)
        version = http_header(call, names[i]);
    if (!version)
        return ERR_VERSION_MISSING;
    return strcmp(version, "2") ? ERR_VERSION_INVALID : 0;
}

/* The bearer token (RFC 6750 2.1), never part of a message. 0 | ERR_AUTH_MISSING |
 * ERR_AUTH_UNPARSABLE | ERR_AUTH_MALFORMED. */
static int check_bearer(call_t *call, const char **ret_token)
{
    const char *value = http_header(call, "Authorization");

    if (!value)
        return ERR_AUTH_MISSING;
    if (strncasecmp(value, "Bearer", 6) || (value[6] && value[6] != ' '))
        return ERR_AUTH_UNPARSABLE;
    for (value += 6; *value == ' '; value++)
        ;
    *ret_token = value;
    return *value ? 0 : ERR_AUTH_MALFORMED;
}

const char *call_token(call_t *call)
{
    const char *token = "";

    check_bearer(call, &token);
    return token;
}

static int check_idempotency_key(call_t *call)
{
    const char *key = http_header(call, "Idempotency-Key");

    if (!key) {
        snprintf(call->key, sizeof(call->key), "%s", call->operation_id);
        return 0;
    }
    if (!*key || strlen(key) > 72)
        return ERR_INVALID_FIELD;
    for (const char *c = key; *c; c++)
        if (*c <= 0x20 || *c >= 0x7f)
            return ERR_INVALID_FIELD;
    snprintf(call->key, sizeof(call->key), "key:%s", key);
    return 0;
}

static int check_if_match(call_t *call)
{
    const char *tags = http_header(call, "If-Match");

    if (tags && strlen(tags) > 1024)
        return ERR_INVALID_FIELD;
    for (const char *c = tags; c && *c; c++)
        if (*c < 0x20 || *c >= 0x7f)
            return ERR_INVALID_FIELD;
    return 0;
}

static bool is_json(const char *type)
{
    size_t n = strcspn(type, "; \t");

    return n == strlen("application/json") && !strncasecmp(type, "application/json", n);
}

/* Check that a body is allowed, and its type. A body is parsed, and a large one read, only after
 * authentication: an anonymous client must not cost that time and memory. */
static int check_body(call_t *call)
{
    const operation_t *operation = call->target.operation; /* NULL: of the API itself */
    unsigned body = operation ? operation->body : BODY_NO_BODY;
    const char *type = http_header(call, "Content-Type");

    if (body & BODY_ANY_BODY)
        return 0; /* some clients repeat the id in the body, in several ways */
    if (!body)
        /* some clients send Content-Type without a body */
        return call->has_body ? ERR_UNEXPECTED_BODY : 0;
    if (body & BODY_OR_EMPTY && !call->has_body)
        return 0; /* clients that set no field send an empty body */
    if (!type)
        return ERR_CONTENT_TYPE_MISSING;
    if (!is_json(type))
        return ERR_CONTENT_TYPE_UNSUPPORTED;
    return 0;
}

/* Values of a query field that narrows a list to any of them; given several times, or with
 * commas. */
static void take_values(call_t *call, const char *name, const char *value)
{
    json_t *values = json_object_get(call->query, name);

    if (!values) {
        values = json_array();
        json_object_set_new(call->query, name, values);
    }
    for (const char *at = value; call->state != ANSWERED; at++) {
        size_t len = strcspn(at, ",");

        if (json_array_size(values) == QUERY_VALUES_MAX || !len) {
            char msg[80];

            snprintf(msg, sizeof(msg), "takes 1 to %d values, none of them empty",
                     QUERY_VALUES_MAX);
            call_refuse(call, ERR_BAD_QUERY, name, msg);
        } else if (json_array_append_new(values, json_stringn(at, len))) {
            call_refuse(call, ERR_BAD_QUERY, NULL, NULL); /* not UTF-8 */
        }
        at += len;
        if (!*at)
            return;
    }
}

static bool take_parameter(call_t *call, const char *name, const char *value)
{
    const operation_t *operation = call->target.operation;
    bool list = operation && operation->answer == ANSWER_OBJECTS;
    bool filtered = list && call->target.kind->operations & KIND_FILTERS;
    const field_t *field = list ? kind_query(call->target.kind, name) : NULL;

    if (!strcmp(name, "beforeId")) /* as the TypeScript client spells it */
        name = "before_id";
    if (!field
        && (!list
            || (strcmp(name, "limit") && strcmp(name, "before_id")
                && (!filtered || strcmp(name, "filter"))))) {
        char msg[200];

        snprintf(msg, sizeof(msg), "The query parameter %s is not known here.", quote(name).text);
        call_refuse(call, ERR_UNKNOWN_QUERY_PARAMETER, NULL, msg);
    } else if (!value || !*value) {
        return true; /* generated clients send an empty value for one that is not given */
    } else if (field) {
        take_values(call, field->name, value);
    } else if (json_object_get(call->query, name)) {
        call_refuse(call, ERR_REPEATED_QUERY_PARAMETER, name, "was given twice");
    } else if (json_object_set_new(call->query, name, json_string(value))) {
        call_refuse(call, ERR_BAD_QUERY, NULL, NULL); /* not UTF-8 */
    }
    return call->state != ANSWERED;
}

static bool is_utf8(const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    size_t n;

    while (at < end && (n = utf8_character(at, end)))
        at += n;
    return at == end;
}

int call_check(call_t *call)
{
    const char *token;
    int r;

    bool get = !strcmp(call->method, "GET");
    const char *why;

    call->self = get && !strcmp(call->path, "/self");
    why = path_left_out(call->path);
    if (why) {
        call_refuse_path(call, ERR_KIND_LEFT_OUT, why);
        return 0;
    }
    if (!is_utf8(call->path) || (!call->target.kind && !call->self && strcmp(call->path, "/"))) {
        call_refuse_path(call, ERR_UNKNOWN_PATH, NULL);
        return 0;
    }
    if (call->target.kind && !call->target.operation) {
        call->allow = call->target.allow;
        call_refuse_path(call, ERR_WRONG_METHOD, NULL);
        return 0;
    }
    r = check_bearer(call, &token);
    if (r)
        return r;
    r = check_version(call);
    if (r)
        return r;
    r = check_idempotency_key(call);
    if (!r)
        r = check_if_match(call);
    if (r)
        return r;
    if (call->query_text && strstr(call->query_text, "%00")) {
        call_refuse(call, ERR_BAD_QUERY, NULL, "The query string has an escaped NUL (%00).");
        return 0;
    }
    query_each(call, take_parameter);
    return call->state == ANSWERED ? 0 : check_body(call);
}
