/* Signing out at the provider: RP-Initiated Logout 1.0 and Back-Channel Logout 1.0 of OpenID
 * Connect. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <stdio.h>
#include <string.h>

char *oidc_leave_url(const oidc_metadata_t *metadata, const char *client_id, const char *id_token,
                     const char *back_to, const char *state)
{
    provider_text_t url = {0};
    char *text = NULL;

    if (!metadata->end_session)
        return NULL;
    provider_text_begin(&url, metadata->end_session);
    provider_text_pair(&url, "client_id", client_id);
    provider_text_pair(&url, "post_logout_redirect_uri", back_to);
    if (state)
        provider_text_pair(&url, "state", state);
    if (id_token && url.len + strlen(id_token) + strlen("&id_token_hint=") <= OIDC_LOCATION_MAX)
        provider_text_pair(&url, "id_token_hint", id_token);
    if (!url.is_full && url.len <= OIDC_LOCATION_MAX)
        text = memory_copy(url.bytes, "the URL of a sign-out");
    provider_text_end(&url);
    return text;
}

char *oidc_end_session_url(const char *metadata, size_t metadata_len, const char *issuer,
                           const char *client_id, const char *id_token, const char *back_to,
                           const char *state)
{
    oidc_metadata_t document = {0};
    char *text = NULL;

    if (!oidc_metadata_read(&document, metadata, metadata_len, issuer)) {
        text = oidc_leave_url(&document, client_id, id_token, back_to, state);
        oidc_metadata_done(&document);
    }
    return text;
}

/* It counts for a while only, so that nobody has to remember it for longer. */
static const char *age_fault(const json_t *claims, int64_t now_s, oidc_logout_t *out)
{
    int64_t issued_s = 0;

    oidc_time(json_object_get(claims, "exp"), &out->expires_s);
    oidc_time(json_object_get(claims, "iat"), &issued_s);
    out->too_old_s = issued_s + OIDC_LOGOUT_AGE_S + OIDC_SKEW_S;
    if (out->expires_s + OIDC_SKEW_S < out->too_old_s)
        out->too_old_s = out->expires_s + OIDC_SKEW_S;
    return out->too_old_s <= now_s ? "its iat is too long ago" : NULL;
}

/* 2.6, but for what any token of the provider has to say. */
static const char *claims_fault(const json_t *claims, oidc_logout_t *out)
{
    static const char event[] = "http://schemas.openid.net/event/backchannel-logout";
    const json_t *events = json_object_get(claims, "events");
    const char *sub = oidc_text(claims, "sub", OIDC_ID_MAX);
    const char *sid = oidc_text(claims, "sid", OIDC_ID_MAX);
    const char *jti = oidc_text(claims, "jti", OIDC_ID_MAX);

    if (!json_is_object(json_object_get(events, event)))
        return "its events are not those of a sign-out";
    if (json_object_get(claims, "nonce"))
        return "it has a nonce";
    if (!jti)
        return "its jti is no text of 1 to 255 bytes";
    if ((!sub && json_object_get(claims, "sub")) || (!sid && json_object_get(claims, "sid"))
        || (!sub && !sid))
        return "its sub or sid is no text of 1 to 255 bytes";
    *out = (oidc_logout_t){0};
    snprintf(out->sub, sizeof(out->sub), "%s", sub ? sub : "");
    snprintf(out->sid, sizeof(out->sid), "%s", sid ? sid : "");
    snprintf(out->jti, sizeof(out->jti), "%s", jti);
    return NULL;
}

const char *oidc_logout_fault(const oidc_token_t *token, const oidc_expected_t *expected,
                              oidc_logout_t *out)
{
    const char *fault = oidc_token_fault_common(token, expected);

    if (!fault)
        fault = claims_fault(token->claims, out);
    return fault ? fault : age_fault(token->claims, expected->now_s, out);
}

const char *oidc_begin_ended(oidc_flow_t *self)
{
    const oidc_expected_t expected = {
        .issuer = self->issuer, .client_id = self->client_id, .now_s = self->now_s};
    const json_t *tokens = json_object_get(self->params, "logout_token");
    const char *text = json_string_value(json_array_get(tokens, 0)), *fault;

    self->is_fault_of_token = true;
    if (!text || json_array_size(tokens) != 1)
        return "there must be one logout token";
    oidc_set(&self->id_token, text);
    fault = oidc_token_read(&self->token, self->id_token, "logout+jwt");
    return fault ? fault : oidc_logout_fault(&self->token, &expected, &self->ended);
}

const char *oidc_logout_read(oidc_logout_t *out, const char *token, const char *keys,
                             size_t keys_len, const char *issuer, const char *client_id,
                             int64_t now_s)
{
    const oidc_expected_t expected = {.issuer = issuer, .client_id = client_id, .now_s = now_s};
    oidc_token_t read = {0};
    oidc_keys_t *set = NULL;
    const char *fault = oidc_token_read(&read, token, "logout+jwt");

    if (!fault)
        fault = oidc_keys_read(&set, keys, keys_len);
    if (!fault && oidc_token_verify(&read, set) != OIDC_VERIFIED)
        fault = "no key of the provider has signed it";
    if (!fault)
        fault = oidc_logout_fault(&read, &expected, out);
    oidc_keys_free(&set);
    oidc_token_done(&read);
    return fault;
}
