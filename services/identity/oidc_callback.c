/* Answers of the oidc engine: what the browser brings back, tokens, userinfo. */
#include "common/base/cleanup.h"
#include "common/base/quote.h"
#include "common/out/outbound.h"
#include "services/identity/oidc_internal.h"

#include <limits.h>
#include <string.h>
#include <strings.h>

/* ---- errors ---- */

/* What an error code means (RFC 6749 4.1.2.1, 5.2; OpenID Connect Core 3.1.2.6). */
static provider_step_t step_of_error(const char *error, bool is_refresh)
{
    static const char *const denied[] = {"access_denied", "login_required", "consent_required",
                                         "interaction_required", "account_selection_required"};

    for (size_t i = 0; i < LEN(denied); i++)
        if (!strcmp(error, denied[i]))
            return PROVIDER_DENIED;
    if (is_refresh && !strcmp(error, "invalid_grant"))
        return PROVIDER_DENIED;
    if (!strcmp(error, "temporarily_unavailable") || !strcmp(error, "server_error"))
        return PROVIDER_UNAVAILABLE;
    return PROVIDER_INVALID;
}

static provider_step_t fail_with(oidc_flow_t *self, const char *what, const char *error,
                                 const char *description)
{
    return oidc_fail(self, step_of_error(error, self->operation == PROVIDER_REFRESH),
                     "%s of the provider says %s%s%s", what, quote(error).text,
                     description ? ": " : "", description ? quote(description).text : "");
}

provider_step_t oidc_judge(oidc_flow_t *self, const char *what, const fetched_t *answer)
{
    if (answer->end == OUTBOUND_TOO_LARGE)
        return oidc_fail(self, PROVIDER_INVALID, "%s of the provider is too large", what);
    if (answer->end)
        return oidc_fail(self, PROVIDER_UNAVAILABLE, "%s of the provider cannot be reached: %s: %s",
                         what, outbound_end_name((outbound_end_t)answer->end),
                         answer->reason ? answer->reason : "");
    if (answer->status == 429 || answer->status >= 500)
        return oidc_fail(self, PROVIDER_UNAVAILABLE, "%s of the provider answers with status %u",
                         what, answer->status);
    if (answer->status != 200 && (answer->status < 400 || !answer->body))
        return oidc_fail(self, PROVIDER_INVALID, "%s of the provider answers with status %u", what,
                         answer->status);
    return PROVIDER_DONE;
}

/* ---- callback ---- */

/* The one value of a parameter; NULL: it is not there. False: it is there several times, or it is
 * no text of 1 to max bytes. */
static bool take_param(const json_t *params, const char *name, size_t max, const char **ret_value)
{
    const json_t *values = json_object_get(params, name);
    const json_t *value = json_array_get(values, 0);

    *ret_value = NULL;
    if (!values)
        return true;
    if (json_array_size(values) != 1 || !json_is_string(value) || !json_string_length(value)
        || json_string_length(value) > max
        || strlen(json_string_value(value)) != json_string_length(value))
        return false;
    *ret_value = json_string_value(value);
    return true;
}

/* RFC 9207 2.4: also of an error. */
static const char *issuer_fault(const oidc_flow_t *self, const char *iss)
{
    if (!iss)
        return self->metadata.says_issuer ? "the answer lacks iss, which the provider promises"
                                          : NULL;
    return strcmp(iss, self->issuer) != 0 ? "the answer's iss is another issuer" : NULL;
}

provider_step_t oidc_read_callback(oidc_flow_t *self, const char **ret_code)
{
    const char *code, *state, *iss, *error, *description, *fault = NULL;

    if (!take_param(self->params, "code", OIDC_CODE_MAX, &code)
        || !take_param(self->params, "state", OIDC_ID_MAX, &state)
        || !take_param(self->params, "iss", OIDC_URL_MAX, &iss)
        || !take_param(self->params, "error", OIDC_ID_MAX, &error)
        || !take_param(self->params, "error_description", OIDC_CODE_MAX, &description))
        fault = "a parameter of the answer is there twice, empty or too long";
    else if (state && !oidc_same(state, self->state))
        fault = "the answer's state is another sign-in's";
    else
        fault = issuer_fault(self, iss);
    if (!fault && code && error)
        fault = "the answer has both code and error";
    if (!fault && !error && !code)
        fault = "the answer has neither code nor error";
    if (!fault && code && !oidc_is_visible(code))
        fault = "the answer's code has characters that no code has";
    if (fault)
        return oidc_fail(self, PROVIDER_INVALID, "%s", fault);
    if (error)
        return fail_with(self, "the sign-in", error, description);
    *ret_code = code;
    return PROVIDER_DONE;
}

/* ---- tokens ---- */

/* A token that is there is one. */
static bool take_token(const json_t *answer, const char *name, size_t max, char **ret_token)
{
    const char *token = oidc_text(answer, name, max);

    if (!json_object_get(answer, name))
        return true;
    if (!token || !oidc_is_visible(token))
        return false;
    oidc_set(ret_token, token);
    return true;
}

/* expires_in is advice: one that is none says nothing. Some providers write it as text. */
static int64_t expiry_of(const json_t *answer, int64_t now_s)
{
    const json_t *value = json_object_get(answer, "expires_in");
    const char *text = json_string_value(value);
    int64_t seconds;

    if (text && *text && strlen(text) < 10 && text[strspn(text, "0123456789")] == '\0')
        seconds = strtol(text, NULL, 10);
    else if (!oidc_time(value, &seconds))
        return 0;
    return now_s + (seconds < INT_MAX ? seconds : INT_MAX);
}

static const char *tokens_fault(oidc_flow_t *self, const json_t *answer)
{
    const char *type = oidc_text(answer, "token_type", OIDC_ID_MAX);

    /* first, because the one that was sent is used up, whatever else is wrong with the answer */
    if (!take_token(answer, "refresh_token", OIDC_TOKEN_MAX, &self->refresh_token))
        return "its refresh_token is no token of 1 to 8192 bytes";
    self->has_new_tokens = true;
    oidc_set(&self->access_token, NULL);
    if (!type || strcasecmp(type, "Bearer") != 0)
        return "its token_type is not Bearer";
    if (!take_token(answer, "access_token", OIDC_TOKEN_MAX, &self->access_token)
        || !self->access_token)
        return "its access_token is no token of 1 to 8192 bytes";
    self->access_expires_s = expiry_of(answer, self->now_s);
    oidc_set(&self->id_token, NULL);
    if (!take_token(answer, "id_token", OIDC_ID_TOKEN_MAX, &self->id_token))
        return "its id_token is no token of 1 to 32768 bytes";
    if (!self->id_token && self->operation == PROVIDER_CALLBACK)
        return "it lacks id_token";
    return NULL;
}

provider_step_t oidc_read_tokens(oidc_flow_t *self, const fetched_t *answer)
{
    provider_step_t step = oidc_judge(self, "the token endpoint", answer);
    _cleanup_(json_clear_ref) json_t *body = NULL;
    const char *error, *fault;

    if (step != PROVIDER_DONE)
        return step;
    body = answer->body_len <= OIDC_TOKENS_MAX ? oidc_json(answer->body, answer->body_len) : NULL;
    error = oidc_text(body, "error", OIDC_ID_MAX);
    if (error)
        return fail_with(self, "the token endpoint", error,
                         oidc_text(body, "error_description", OIDC_CODE_MAX));
    if (answer->status != 200)
        return oidc_fail(self, PROVIDER_INVALID,
                         "the token endpoint of the provider answers with status %u",
                         answer->status);
    fault = body ? tokens_fault(self, body) : "it is no JSON object, or beyond the limits";
    if (!fault && self->id_token)
        fault = oidc_token_read(&self->token, self->id_token, NULL);
    if (fault)
        return oidc_fail(self, PROVIDER_INVALID,
                         "the provider's answer with tokens is not valid: %s", fault);
    return PROVIDER_DONE;
}

/* ---- userinfo ---- */

provider_step_t oidc_read_userinfo(oidc_flow_t *self, const fetched_t *answer)
{
    provider_step_t step = oidc_judge(self, "the userinfo endpoint", answer);
    const char *sub =
        self->is_verified ? oidc_text(self->token.claims, "sub", OIDC_ID_MAX) : self->known.id;
    const char *said;

    if (step != PROVIDER_DONE)
        return step;
    if (answer->status == 401 && self->operation == PROVIDER_REFRESH)
        return oidc_fail(self, PROVIDER_DENIED, "the provider takes its token no more");
    if (answer->status != 200)
        return oidc_fail(self, PROVIDER_INVALID,
                         "the userinfo endpoint of the provider answers with status %u",
                         answer->status);
    if (answer->content_type && !strncasecmp(answer->content_type, "application/jwt", 15))
        return oidc_fail(self, PROVIDER_INVALID,
                         "userinfo is a signed token: the client must be registered for JSON");
    self->userinfo =
        answer->body_len <= OIDC_USERINFO_MAX ? oidc_json(answer->body, answer->body_len) : NULL;
    if (!self->userinfo)
        return oidc_fail(self, PROVIDER_INVALID,
                         "userinfo is no JSON object, or beyond the limits");
    said = oidc_text(self->userinfo, "sub", OIDC_ID_MAX);
    if (!said || strcmp(said, sub) != 0)
        return oidc_fail(self, PROVIDER_INVALID,
                         "userinfo is about somebody else: its sub differs");
    return PROVIDER_DONE;
}
