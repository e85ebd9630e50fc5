/* Access tokens that requests bring: JWTs of the issuer (RFC 9068) for one of the audiences that
 * the route names. What proves them is the provider's key set alone: nothing that a token's header
 * brings along is looked at. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"

#include <string.h>

/* aud is one of those that are meant here, or a list that has one. */
static const char *audience_fault(const json_t *claims, const json_t *audiences)
{
    const json_t *aud = json_object_get(claims, "aud"), *item;
    bool is_here = false;
    const char *wanted;
    size_t i;

    if (json_array_size(aud) > OIDC_AUDIENCES)
        return "its aud has more than 32";
    json_array_foreach(aud, i, item)
    {
        if (!json_is_string(item))
            return "its aud is no text and no list of texts";
    }
    if (!json_is_string(aud) && !json_array_size(aud))
        return "its aud is no text and no list of texts";
    json_array_foreach(audiences, i, item)
    {
        wanted = json_string_value(item);
        if (!wanted || !*wanted)
            continue;
        is_here = is_here || (json_is_string(aud) && !strcmp(json_string_value(aud), wanted))
                  || oidc_lists(claims, "aud", wanted);
    }
    return is_here ? NULL : "its aud is none of the route's";
}

/* A time that may be missing, and is not in the future where it is there. */
static const char *past_fault(const json_t *claims, const char *name, int64_t now_s,
                              const char *no_time, const char *in_future)
{
    int64_t time_s;

    if (!json_object_get(claims, name))
        return NULL;
    if (!oidc_time(json_object_get(claims, name), &time_s))
        return no_time;
    return time_s > now_s + OIDC_SKEW_S ? in_future : NULL;
}

/* No allowance for clocks at its end: what an edge remembers of it ends there, too. */
static const char *times_fault(const json_t *claims, int64_t now_s, int64_t *ret_expires_s)
{
    const char *fault;

    if (!oidc_time(json_object_get(claims, "exp"), ret_expires_s))
        return "its exp is no time";
    if (*ret_expires_s <= now_s)
        return "it has expired";
    fault = past_fault(claims, "iat", now_s, "its iat is no time", "its iat is in the future");
    return fault
               ? fault
               : past_fault(claims, "nbf", now_s, "its nbf is no time", "its nbf is in the future");
}

const char *oidc_bearer_fault(const oidc_token_t *token, const char *issuer,
                              const json_t *audiences, int64_t now_s, int64_t *ret_expires_s)
{
    const char *iss = oidc_text(token->claims, "iss", OIDC_URL_MAX);
    const char *fault;

    if (!iss || strcmp(iss, issuer) != 0)
        return "its iss is another issuer";
    fault = audience_fault(token->claims, audiences);
    if (!fault)
        fault = times_fault(token->claims, now_s, ret_expires_s);
    if (fault)
        return fault;
    if (!oidc_text(token->claims, "sub", OIDC_ID_MAX))
        return "its sub is no text of 1 to 255 bytes";
    /* A token of another purpose is none, even where its audience fits (RFC 8725 3.12). */
    if (json_object_get(token->claims, "events"))
        return "it has events, so it is no access token";
    /* Whoever stole it could not use it elsewhere, and is not to here (RFC 9449 7.2, RFC 8705). */
    return json_object_get(token->claims, "cnf") ? "its cnf binds it to a key that is not shown"
                                                 : NULL;
}

/* What only ID tokens have (OpenID Connect Core 2, 3.1.3.6): one of several audiences may name the
 * route's. A token that calls itself an access token (RFC 9068 4) is one, whatever it has, and a
 * route whose audiences have the client takes ID tokens. */
static const char *purpose_fault(const oidc_token_t *token, const json_t *audiences,
                                 const char *client_id)
{
    static const char *const marks[] = {"nonce", "at_hash", "c_hash"};
    const json_t *item;
    size_t i;

    json_array_foreach(audiences, i, item)
    {
        if (client_id && json_is_string(item) && !strcmp(json_string_value(item), client_id))
            return NULL;
    }
    if (oidc_token_is(token, "at+jwt"))
        return NULL;
    for (i = 0; i < LEN(marks); i++)
        if (json_object_get(token->claims, marks[i]))
            return "it has nonce, at_hash or c_hash, so it is an ID token";
    return NULL;
}

const char *oidc_begin_bearer(oidc_flow_t *self)
{
    const json_t *tokens = json_object_get(self->params, "bearer_token");
    const char *text = json_string_value(json_array_get(tokens, 0)), *fault;

    self->is_fault_of_token = true;
    if (!text || json_array_size(tokens) != 1)
        return "there must be one token";
    if (strlen(text) > OIDC_TOKEN_MAX)
        return "it is longer than 8 KiB";
    oidc_set(&self->id_token, text);
    fault = oidc_token_read(&self->token, self->id_token, "at+jwt");
    if (!fault)
        fault = oidc_bearer_fault(&self->token, self->issuer, self->audiences, self->now_s,
                                  &self->token_expires_s);
    return fault ? fault : purpose_fault(&self->token, self->audiences, self->client_id);
}
