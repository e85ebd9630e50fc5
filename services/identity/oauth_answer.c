/* Answers of OAuth providers: what an error means, tokens, scopes. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/quote.h"
#include "common/out/outbound.h"
#include "services/identity/oauth_internal.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    DECODED_MAX = 8 << 20,    /* bytes that the values of an answer may take */
    FIELDS_MAX = 32,          /* of an answer that is a form */
    EXPIRES_MAX_S = 315360000 /* ten years: what is later says nothing */
};

provider_step_t oauth_fail(oauth_flow_t *flow, provider_step_t step, const char *format, ...)
{
    char text[2 * OAUTH_WHY_MAX];
    va_list args;
    int len;

    va_start(args, format);
    len = snprintf(text, sizeof(text), "%s: ", flow->row ? flow->row->name : "oauth");
    vsnprintf(text + len, sizeof(text) - (size_t)len, format, args);
    va_end(args);
    quote_plain(flow->why, sizeof(flow->why), text);
    flow->outcome = step;
    return step;
}

/* ---- JSON and forms ---- */

json_t *oauth_json(const fetched_t *answer)
{
    json_t *value;

    if (!answer->body)
        return NULL;
    memory_json_begin_outside(DECODED_MAX);
    value = json_loadb(answer->body, answer->body_len, JSON_REJECT_DUPLICATES, NULL);
    if (memory_json_end_outside())
        json_clear_ref(&value);
    return value;
}

const json_t *oauth_at(const json_t *value, const char *path)
{
    char part[64];

    while (value && path && *path) {
        size_t len = strcspn(path, ".");

        snprintf(part, sizeof(part), "%.*s", (int)len, path);
        value = isdigit((unsigned char)*part)
                    ? json_array_get(value, (size_t)strtoul(part, NULL, 10))
                    : json_object_get(value, part);
        path += len + (path[len] == '.');
    }
    return value;
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Decode a name or value of a form in place. False: a malformed escape, or a NUL. */
static bool form_decode(char *text)
{
    char *out = text;

    for (char *at = text; *at; at++) {
        int high, low;

        if (*at != '%') {
            *out++ = *at == '+' ? ' ' : *at;
            continue;
        }
        high = hex_digit(at[1]);
        low = high < 0 ? -1 : hex_digit(at[2]);
        if (low < 0 || !(high | low))
            return false;
        *out++ = (char)(high << 4 | low);
        at += 2;
    }
    *out = '\0';
    return true;
}

/* An answer that is a form, as an object of texts. NULL: it is none, a name comes twice, or there
 * are too many. */
static json_t *form_read(const fetched_t *answer)
{
    _cleanup_(json_clear_ref) json_t *object = json_object();
    _cleanup_(free_mem) char *copy = NULL;
    char *rest, *pair;
    size_t count = 0;

    if (answer->body_len > OAUTH_TOKEN_ANSWER_MAX || memchr(answer->body, '\0', answer->body_len))
        return NULL;
    copy = strndup(answer->body, answer->body_len);
    rest = copy;
    while ((pair = strsep(&rest, "&"))) {
        char *value = strchr(pair, '=');

        if (!value || ++count > FIELDS_MAX)
            return NULL;
        *value++ = '\0';
        if (!form_decode(pair) || !form_decode(value) || json_object_get(object, pair)
            || json_object_set_new(object, pair, json_string(value)))
            return NULL;
    }
    return take(object);
}

/* A token answer is JSON, or a form where the provider says so. NULL: neither, or no object. */
static json_t *token_object(const fetched_t *answer)
{
    static const char form[] = "application/x-www-form-urlencoded";
    json_t *object = answer->content_type && answer->body
                             && !strncasecmp(answer->content_type, form, strlen(form))
                         ? form_read(answer)
                         : oauth_json(answer);

    if (!json_is_object(object))
        json_clear_ref(&object);
    return object;
}

/* ---- errors ---- */

/* Error codes (RFC 6749 5.2, OpenID Connect Core 3.1.2.6, and providers' own) that mean more than
 * that something is wrong with the request. */
static const struct error_meaning {
    const char *error;
    provider_step_t at_sign_in, at_refresh;
} meanings[] = {
    {"invalid_grant", PROVIDER_INVALID, PROVIDER_DENIED},
    {"bad_refresh_token", PROVIDER_INVALID, PROVIDER_DENIED}, /* GitHub */
    {"access_denied", PROVIDER_DENIED, PROVIDER_DENIED},
    {"unverified_user_email", PROVIDER_DENIED, PROVIDER_DENIED}, /* GitHub */
    {"interaction_required", PROVIDER_DENIED, PROVIDER_DENIED},
    {"login_required", PROVIDER_DENIED, PROVIDER_DENIED},
    {"consent_required", PROVIDER_DENIED, PROVIDER_DENIED},
    {"user_cancelled_login", PROVIDER_DENIED, PROVIDER_DENIED},     /* LinkedIn */
    {"user_cancelled_authorize", PROVIDER_DENIED, PROVIDER_DENIED}, /* LinkedIn */
    {"temporarily_unavailable", PROVIDER_UNAVAILABLE, PROVIDER_UNAVAILABLE},
    {"server_error", PROVIDER_UNAVAILABLE, PROVIDER_UNAVAILABLE},
    {"slow_down", PROVIDER_UNAVAILABLE, PROVIDER_UNAVAILABLE},
};

provider_step_t oauth_fail_error(oauth_flow_t *flow, const char *what, const char *error)
{
    provider_step_t step = PROVIDER_INVALID;

    for (size_t i = 0; i < LEN(meanings); i++)
        if (!strcmp(meanings[i].error, error))
            step = flow->operation == PROVIDER_REFRESH ? meanings[i].at_refresh
                                                       : meanings[i].at_sign_in;
    return oauth_fail(flow, step, "%s: error %s", what, quote(error).text);
}

/* Facebook's numbers (Graph API, Handling Errors): too many calls and outages; tokens and
 * permissions that are gone. */
static provider_step_t fail_graph(oauth_flow_t *flow, json_int_t code)
{
    provider_step_t step = PROVIDER_INVALID;

    if (code == 1 || code == 2 || code == 4 || code == 17 || code == 32 || code == 341
        || code == 613)
        step = PROVIDER_UNAVAILABLE;
    else if (code == 10 || code == 102 || code == 190 || (code >= 200 && code <= 299))
        step = PROVIDER_DENIED;
    return oauth_fail(flow, step, "error %" JSON_INTEGER_FORMAT, code);
}

/* What an answer's member error says: a code, or Facebook's object with one. PROVIDER_DONE: it has
 * none. */
static provider_step_t judge_error(oauth_flow_t *flow, const json_t *object)
{
    const json_t *error = json_object_get(object, "error"), *code = json_object_get(error, "code");

    if (json_is_string(error))
        return oauth_fail_error(flow, "the token request", json_string_value(error));
    if (json_is_integer(code))
        return fail_graph(flow, json_integer_value(code));
    if (error)
        return oauth_fail(flow, PROVIDER_INVALID, "an error that cannot be read");
    return PROVIDER_DONE;
}

/* PROVIDER_DONE: an answer came, and the provider is in order. */
static provider_step_t judge_end(oauth_flow_t *flow, const fetched_t *answer)
{
    if (answer->end == OUTBOUND_TOO_LARGE || answer->end == OUTBOUND_REDIRECTS)
        return oauth_fail(flow, PROVIDER_INVALID, "the answer is %s",
                          answer->end == OUTBOUND_TOO_LARGE ? "too large" : "a redirect");
    if (answer->end != OUTBOUND_ANSWERED)
        return oauth_fail(flow, PROVIDER_UNAVAILABLE, "cannot be reached: %s: %s",
                          outbound_end_name((outbound_end_t)answer->end),
                          answer->reason ? answer->reason : "");
    if (answer->status == 408 || answer->status == 429 || answer->status >= 500)
        return oauth_fail(flow, PROVIDER_UNAVAILABLE, "answers with status %u", answer->status);
    return PROVIDER_DONE;
}

bool oauth_is_rate_limit(const fetched_t *answer)
{
    static const char words[] = "rate limit";

    return answer->status == 403
           && (answer->retry_after
               || (answer->body && memmem(answer->body, answer->body_len, words, strlen(words))));
}

provider_step_t oauth_judge(oauth_flow_t *flow, const fetched_t *answer)
{
    _cleanup_(json_clear_ref) json_t *object = NULL;
    const json_t *error;
    provider_step_t step = judge_end(flow, answer);
    bool is_denied;

    if (step != PROVIDER_DONE || answer->status == 200)
        return step;
    if (oauth_is_rate_limit(answer))
        return oauth_fail(flow, PROVIDER_UNAVAILABLE, "has had too many requests");
    object = oauth_json(answer);
    error = json_object_get(object, "error");
    if (flow->row->quirks & OAUTH_NUMBERS_ERRORS && json_is_integer(json_object_get(error, "code")))
        return fail_graph(flow, json_integer_value(json_object_get(error, "code")));
    is_denied = answer->status == 401 || answer->status == 403
                || (json_is_string(error) && !strcmp(json_string_value(error), "invalid_token"));
    return oauth_fail(flow, is_denied ? PROVIDER_DENIED : PROVIDER_INVALID,
                      "its API answers with status %u", answer->status);
}

/* ---- tokens ---- */

/* Visible ASCII: anything else would not be one header. */
static bool token_is_plain(const char *token)
{
    size_t len = token ? strlen(token) : 0;

    for (size_t i = 0; i < len; i++)
        if (token[i] < 0x21 || token[i] > 0x7e)
            return false;
    return len > 0 && len <= OAUTH_TOKEN_MAX;
}

/* Seconds as a number, or as a form has them; 0: unknown. */
static int64_t expires_in(const json_t *value)
{
    const char *text = json_string_value(value);
    json_int_t seconds = json_integer_value(value);

    if (text && *text && strlen(text) < 12 && text[strspn(text, "0123456789")] == '\0')
        seconds = strtoll(text, NULL, 10);
    return seconds > 0 && seconds <= EXPIRES_MAX_S ? seconds : 0;
}

static provider_step_t take_tokens(oauth_flow_t *flow, const json_t *object)
{
    const char *access = json_string_value(json_object_get(object, "access_token"));
    const json_t *refresh = json_object_get(object, "refresh_token");
    const json_t *type = json_object_get(object, "token_type");
    int64_t seconds = expires_in(json_object_get(object, "expires_in"));

    /* first, because the one that was sent is used up, whatever else is wrong with the answer */
    if (token_is_plain(json_string_value(refresh))) { /* else the old one goes on (RFC 6749 6) */
        oauth_set(&flow->refresh_token, json_string_value(refresh));
        flow->has_new_tokens = true;
    }
    if (!token_is_plain(access))
        return oauth_fail(flow, PROVIDER_INVALID, "the token answer has no access token");
    if (type && (!json_is_string(type) || strcasecmp(json_string_value(type), "bearer") != 0))
        return oauth_fail(flow, PROVIDER_INVALID, "the token is no bearer token");
    if (refresh && !json_is_null(refresh) && json_string_length(refresh)
        && !token_is_plain(json_string_value(refresh)))
        return oauth_fail(flow, PROVIDER_INVALID, "the refresh token is none");
    oauth_set(&flow->access_token, access);
    flow->has_new_tokens = true;
    flow->access_expires_s = seconds ? flow->now_s + seconds : 0;
    return PROVIDER_DONE;
}

/* Twitch and LinkedIn have no code of their own for a refresh token that is no more, but say so in
 * words: "Invalid refresh token", "The provided authorization grant or refresh token is invalid,
 * expired or revoked". All else, such as a client's secret that is wrong, ends no session. */
static bool refresh_is_gone(const oauth_flow_t *flow, const fetched_t *answer, const json_t *object)
{
    static const char *const places[] = {"message", "error_description", "error"};
    bool is_said = false;

    for (size_t i = 0; i < LEN(places); i++) {
        const char *text = json_string_value(json_object_get(object, places[i]));

        is_said = is_said || (text && strcasestr(text, "refresh token"));
    }
    return is_said && flow->operation == PROVIDER_REFRESH && flow->row->quirks & OAUTH_SAYS_GONE
           && (answer->status == 400 || answer->status == 401);
}

provider_step_t oauth_read_token(oauth_flow_t *flow, const fetched_t *answer)
{
    _cleanup_(json_clear_ref) json_t *object = NULL;
    provider_step_t step = judge_end(flow, answer);

    if (step != PROVIDER_DONE)
        return step;
    object = token_object(answer);
    step = judge_error(flow, object); /* GitHub's come with status 200 */
    if (step != PROVIDER_DONE && step != PROVIDER_INVALID)
        return step;
    if (refresh_is_gone(flow, answer, object))
        return oauth_fail(flow, PROVIDER_DENIED, "the refresh token is no more");
    if (step != PROVIDER_DONE)
        return step;
    if (answer->status != 200)
        return oauth_fail(flow, PROVIDER_INVALID, "the token request: status %u", answer->status);
    if (!object)
        return oauth_fail(flow, PROVIDER_INVALID, "the token answer cannot be read");
    step = take_tokens(flow, object);
    if (step != PROVIDER_DONE || flow->operation == PROVIDER_REFRESH)
        return step;
    return oauth_check_scopes(flow, json_object_get(object, "scope"));
}

/* ---- scopes ---- */

/* Granted scopes as one text with spaces between. NULL: they cannot be read. The caller frees it.
 */
static char *granted_text(const json_t *granted)
{
    provider_text_t text = {0};
    const json_t *item;
    char *copy = NULL;
    bool is_bad = !json_is_string(granted) && !json_is_array(granted);
    size_t i;

    provider_text_begin(&text, json_is_string(granted) ? json_string_value(granted) : "");
    json_array_foreach(granted, i, item)
    {
        is_bad = is_bad || !json_is_string(item);
        provider_text_add(&text, i ? " " : "");
        provider_text_add(&text, json_is_string(item) ? json_string_value(item) : "");
    }
    if (!is_bad && !text.is_full)
        copy = memory_copy(text.bytes, "scopes");
    provider_text_end(&text);
    return copy;
}

static bool scope_is_granted(const oauth_row_t *row, char *granted, const char *wanted)
{
    bool is_granted = row->grants && row->grants("", wanted);
    char *scope, *rest;
    _cleanup_(free_mem) char *copy = memory_copy(granted, "scopes");

    for (rest = copy; !is_granted && (scope = strsep(&rest, " ,"));)
        is_granted =
            !strcmp(scope, wanted) || (*scope && row->grants && row->grants(scope, wanted));
    return is_granted;
}

/* The token of a GitHub App has no scopes: what the app may do was agreed on at its installation,
 * and an API that it may not use answers 403. */
static bool is_token_without_scopes(const oauth_flow_t *flow)
{
    return flow->row->quirks & OAUTH_HAS_TEAMS && !strncmp(flow->access_token, "ghu_", 4);
}

provider_step_t oauth_check_scopes(oauth_flow_t *flow, const json_t *granted)
{
    _cleanup_(free_mem) char *text = NULL, *wanted = NULL;
    char *scope, *rest;

    if (!granted || is_token_without_scopes(flow))
        return PROVIDER_DONE;
    text = granted_text(granted);
    if (!text)
        return oauth_fail(flow, PROVIDER_INVALID, "the granted scopes cannot be read");
    wanted = memory_copy(flow->scopes, "scopes");
    for (rest = wanted; (scope = strsep(&rest, " ,"));)
        if (!scope_is_granted(flow->row, text, scope))
            return oauth_fail(flow, PROVIDER_DENIED, "the permission %s was not granted",
                              quote(scope).text);
    return PROVIDER_DONE;
}

static bool begins_with(const char *text, const char *start)
{
    return !strncmp(text, start, strlen(start));
}

/* A scope holds those below it (GitHub: "Normalized scopes" of Scopes for OAuth apps), and only the
 * wider one comes back: user holds user:email and read:user, admin:org holds write:org. */
bool github_grants(const char *granted, const char *wanted)
{
    const char *colon = strchr(wanted, ':'), *of = strchr(granted, ':');
    size_t above = colon ? (size_t)(colon - wanted) : 0;

    if (!*granted || !colon)
        return !strcmp(granted, "repo")
               && (!strcmp(wanted, "public_repo") || !strcmp(wanted, "repo_deployment")
                   || !strcmp(wanted, "security_events"));
    if (!of) /* a bare name */
        return (strlen(granted) == above && !strncmp(granted, wanted, above))
               || (begins_with(wanted, "read:") && !strcmp(granted, colon + 1));
    if (strcmp(of, colon) != 0) /* of something else */
        return false;
    return (begins_with(granted, "admin:")
            && (begins_with(wanted, "read:") || begins_with(wanted, "write:")))
           || (begins_with(granted, "write:") && begins_with(wanted, "read:"));
}

/* The short names of OpenID Connect come back as long ones. */
bool google_grants(const char *granted, const char *wanted)
{
    static const char base[] = "https://www.googleapis.com/auth/userinfo.";

    return (!strcmp(wanted, "email") || !strcmp(wanted, "profile")) && begins_with(granted, base)
           && !strcmp(granted + strlen(base), wanted);
}

/* Scopes of Graph come back in any case and with its URL before them, and those of OpenID Connect
 * need not come back. */
bool microsoft_grants(const char *granted, const char *wanted)
{
    static const char graph[] = "https://graph.microsoft.com/";
    static const char *const unsaid[] = {"offline_access", "openid", "profile", "email"};

    for (size_t i = 0; i < LEN(unsaid); i++)
        if (!strcasecmp(wanted, unsaid[i]))
            return true;
    granted += strncasecmp(granted, graph, strlen(graph)) ? 0 : strlen(graph);
    wanted += strncasecmp(wanted, graph, strlen(graph)) ? 0 : strlen(graph);
    return !strcasecmp(granted, wanted);
}
