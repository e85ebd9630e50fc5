/* JSON Web Tokens: their form (RFC 7515, compact), and what an ID token must say (OpenID Connect
 * Core 3.1.3.7). Keys and URLs that a header brings along are never looked at. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"

#include <sodium.h>
#include <string.h>
#include <strings.h>

void oidc_token_done(oidc_token_t *self)
{
    json_decref(self->header);
    json_decref(self->claims);
    free(self->signature);
    *self = (oidc_token_t){0};
}

static json_t *part_json(const char *text, size_t len)
{
    size_t bytes_len = 0;
    _cleanup_(free_mem) unsigned char *bytes = oidc_base64url(text, len, &bytes_len);

    return bytes ? oidc_json((const char *)bytes, bytes_len) : NULL;
}

/* Does the header's typ name that media type? */
static bool is_type(const char *typ, const char *type)
{
    static const char application[] = "application/";

    if (!strncasecmp(typ, application, sizeof(application) - 1))
        typ += sizeof(application) - 1;
    return !strcasecmp(typ, type);
}

bool oidc_token_is(const oidc_token_t *self, const char *type)
{
    const char *typ = oidc_text(self->header, "typ", OIDC_KID_MAX);

    return typ && is_type(typ, type);
}

static const char *read_header(oidc_token_t *self, const char *type)
{
    const char *alg = oidc_text(self->header, "alg", OIDC_KID_MAX);
    const char *typ = oidc_text(self->header, "typ", OIDC_KID_MAX);

    if (json_object_get(self->header, "crit"))
        return "its header has crit";
    if (json_object_get(self->header, "typ")
        && (!typ || (!is_type(typ, "JWT") && !(type && is_type(typ, type)))))
        return "its typ is another token's";
    self->algorithm = alg ? oidc_algorithm_find(alg) : NULL;
    if (!self->algorithm)
        return "its alg is none that is let in";
    self->kid = oidc_text(self->header, "kid", OIDC_KID_MAX);
    if (!self->kid && json_object_get(self->header, "kid"))
        return "its kid is no text of 1 to 255 bytes";
    return NULL;
}

const char *oidc_token_read(oidc_token_t *self, const char *text, const char *type)
{
    const char *first = strchr(text, '.');
    const char *second = first ? strchr(first + 1, '.') : NULL;
    const char *fault = NULL;

    *self = (oidc_token_t){.text = text};
    if (strlen(text) > OIDC_ID_TOKEN_MAX)
        return "it is longer than 32 KiB";
    if (!second || strchr(second + 1, '.'))
        return "it does not have three parts";
    self->signed_len = (size_t)(second - text);
    self->header = part_json(text, (size_t)(first - text));
    self->claims = part_json(first + 1, (size_t)(second - first - 1));
    self->signature = oidc_base64url(second + 1, strlen(second + 1), &self->signature_len);
    if (!self->header || !self->claims)
        fault = "its header or its claims are no JSON object in base64url";
    else if (!self->signature)
        fault = "its signature is no base64url";
    else
        fault = read_header(self, type);
    if (fault)
        oidc_token_done(self);
    return fault;
}

oidc_verdict_t oidc_token_verify(const oidc_token_t *self, const oidc_keys_t *keys)
{
    return oidc_keys_verify(keys, self->algorithm, self->kid, self->text, self->signed_len,
                            self->signature, self->signature_len);
}

/* ---- claims ---- */

/* aud is the client, or a list that has it; azp is the client where it is there, and is there where
 * others may use the token, too. */
static const char *audience_fault(const json_t *claims, const char *client_id)
{
    const json_t *aud = json_object_get(claims, "aud"), *azp = json_object_get(claims, "azp");
    const json_t *item;
    size_t i;

    if (azp && (!json_is_string(azp) || strcmp(json_string_value(azp), client_id) != 0))
        return "its azp is another client";
    if (json_is_string(aud))
        return strcmp(json_string_value(aud), client_id) != 0 ? "its aud is another client" : NULL;
    if (!json_array_size(aud) || json_array_size(aud) > OIDC_AUDIENCES)
        return "its aud is no text and no list of texts";
    json_array_foreach(aud, i, item)
    {
        if (!json_is_string(item))
            return "its aud is no text and no list of texts";
    }
    if (!oidc_lists(claims, "aud", client_id))
        return "its aud is another client";
    return json_array_size(aud) > 1 && !azp ? "its aud has others, and it has no azp" : NULL;
}

static const char *times_fault(const json_t *claims, int64_t now_s)
{
    int64_t time_s;

    if (!oidc_time(json_object_get(claims, "exp"), &time_s))
        return "its exp is no time";
    if (time_s <= now_s - OIDC_SKEW_S)
        return "it has expired";
    if (!oidc_time(json_object_get(claims, "iat"), &time_s))
        return "its iat is no time";
    if (time_s > now_s + OIDC_SKEW_S)
        return "its iat is in the future";
    if (!json_object_get(claims, "nbf"))
        return NULL;
    if (!oidc_time(json_object_get(claims, "nbf"), &time_s))
        return "its nbf is no time";
    return time_s > now_s + OIDC_SKEW_S ? "its nbf is in the future" : NULL;
}

const char *oidc_token_fault_common(const oidc_token_t *self, const oidc_expected_t *expected)
{
    const char *iss = oidc_text(self->claims, "iss", OIDC_URL_MAX);
    const char *fault;

    if (!iss || strcmp(iss, expected->issuer) != 0)
        return "its iss is another issuer";
    fault = audience_fault(self->claims, expected->client_id);
    return fault ? fault : times_fault(self->claims, expected->now_s);
}

/* OpenID Connect Core 3.1.3.6: the left half of the hash, which is the algorithm's. */
static const char *at_hash_fault(const oidc_token_t *self, const char *access_token)
{
    const json_t *at_hash = json_object_get(self->claims, "at_hash");
    unsigned char hash[EVP_MAX_MD_SIZE];
    char text[EVP_MAX_MD_SIZE * 2];
    size_t len = 0;

    if (!at_hash || !access_token)
        return NULL;
    if (EVP_Q_digest(NULL, self->algorithm->digest, NULL, access_token, strlen(access_token), hash,
                     &len)
        != 1)
        return "its at_hash cannot be checked";
    sodium_bin2base64(text, sizeof(text), hash, len / 2, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    return json_is_string(at_hash) && oidc_same(json_string_value(at_hash), text)
               ? NULL
               : "its at_hash is another access token's";
}

static const char *auth_time_fault(const json_t *claims, const oidc_expected_t *expected)
{
    int64_t time_s;

    if (expected->max_age_s < 0 && !json_object_get(claims, "auth_time"))
        return NULL;
    if (!oidc_time(json_object_get(claims, "auth_time"), &time_s))
        return "its auth_time is no time";
    if (time_s > expected->now_s + OIDC_SKEW_S)
        return "its auth_time is in the future";
    return expected->max_age_s >= 0 && time_s + expected->max_age_s < expected->now_s - OIDC_SKEW_S
               ? "its auth_time is longer ago than was asked for"
               : NULL;
}

const char *oidc_token_fault(const oidc_token_t *self, const oidc_expected_t *expected)
{
    const char *sub = oidc_text(self->claims, "sub", OIDC_ID_MAX);
    const json_t *nonce = json_object_get(self->claims, "nonce");
    const char *fault = oidc_token_fault_common(self, expected);

    if (fault)
        return fault;
    if (!sub)
        return "its sub is no text of 1 to 255 bytes";
    if (expected->sub && strcmp(sub, expected->sub) != 0)
        return "its sub is somebody else";
    if (expected->nonce
        && (!json_is_string(nonce) || !oidc_same(json_string_value(nonce), expected->nonce)))
        return "its nonce is another sign-in's";
    fault = auth_time_fault(self->claims, expected);
    return fault ? fault : at_hash_fault(self, expected->access_token);
}
