/* Requests of the oidc engine: URLs, forms and headers. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- parts ---- */

static bool has_word(const char *list, const char *word)
{
    size_t len = strlen(word);

    for (const char *at = list; *at; at += strspn(at, " ")) {
        size_t one = strcspn(at, " ");

        if (one == len && !strncmp(at, word, len))
            return true;
        at += one;
    }
    return false;
}

static bool add_scope(provider_text_t *list, const char *scope)
{
    if (!scope || !oidc_is_visible(scope) || strpbrk(scope, "\"\\"))
        return false;
    if (!has_word(list->bytes, scope)) {
        provider_text_add(list, " ");
        provider_text_add(list, scope);
    }
    return !list->is_full;
}

char *oidc_scopes(const json_t *own)
{
    provider_text_t list = {0};
    bool is_good = !own || json_is_array(own) || json_is_null(own);
    const json_t *item;
    char *scopes = NULL;
    size_t i;

    provider_text_begin(&list, "openid");
    json_array_foreach(own, i, item)
    {
        is_good = is_good && add_scope(&list, json_string_value(item));
    }
    if (!json_array_size(own)) {
        add_scope(&list, "email");
        add_scope(&list, "profile");
    }
    if (is_good)
        scopes = memory_copy(list.bytes, "scopes");
    provider_text_end(&list);
    return scopes;
}

void oidc_challenge(const char *verifier, char out[44])
{
    unsigned char hash[crypto_hash_sha256_BYTES];

    crypto_hash_sha256(hash, (const unsigned char *)verifier, strlen(verifier));
    sodium_bin2base64(out, 44, hash, sizeof(hash), sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

char *oidc_basic(const char *client_id, const char *client_secret)
{
    static const char name[] = "Authorization: Basic ";
    provider_text_t both = {0};
    size_t size;
    char *header;

    provider_text_begin(&both, "");
    provider_text_add_encoded(&both, client_id);
    provider_text_add(&both, ":");
    provider_text_add_encoded(&both, client_secret);
    size = sizeof(name) + sodium_base64_ENCODED_LEN(both.len, sodium_base64_VARIANT_ORIGINAL);
    header = memory_need(malloc(size), "credentials of a client");
    memcpy(header, name, sizeof(name) - 1);
    sodium_bin2base64(header + sizeof(name) - 1, size - (sizeof(name) - 1),
                      (const unsigned char *)both.bytes, both.len, sodium_base64_VARIANT_ORIGINAL);
    provider_text_end(&both);
    return header;
}

/* ---- requests ---- */

static void begin_request(oidc_flow_t *self, const char *url, size_t max_bytes)
{
    for (size_t i = 0; i < LEN(self->headers); i++)
        oidc_set(&self->headers[i], NULL);
    provider_text_end(&self->body);
    provider_text_begin(&self->url, url);
    oidc_set(&self->headers[0], "Accept: application/json");
    self->max_bytes = max_bytes;
}

bool oidc_ask_metadata(oidc_flow_t *self)
{
    size_t len = strlen(self->issuer);

    begin_request(self, self->issuer, OIDC_METADATA_MAX);
    if (self->issuer[len - 1] == '/')
        self->url.bytes[--self->url.len] = '\0';
    provider_text_add(&self->url, "/.well-known/openid-configuration");
    return !self->url.is_full;
}

bool oidc_ask_keys(oidc_flow_t *self)
{
    begin_request(self, self->metadata.keys, OIDC_KEYS_MAX);
    return !self->url.is_full;
}

/* Who is to sign in as somebody else is asked to sign in; a token for later use is only given with
 * consent (OpenID Connect Core 11). */
static const char *prompt_of(const oidc_flow_t *self)
{
    if (!has_word(self->scopes, "offline_access"))
        return self->is_forced ? "login" : NULL;
    return self->is_forced ? "login consent" : "consent";
}

bool oidc_ask_authorize(oidc_flow_t *self)
{
    char challenge[44];
    const char *prompt = prompt_of(self);

    oidc_challenge(self->verifier, challenge);
    provider_text_begin(&self->url, self->metadata.authorization);
    provider_text_pair(&self->url, "response_type", "code");
    provider_text_pair(&self->url, "client_id", self->client_id);
    provider_text_pair(&self->url, "redirect_uri", self->redirect_uri);
    provider_text_pair(&self->url, "scope", self->scopes);
    provider_text_pair(&self->url, "state", self->state);
    provider_text_pair(&self->url, "nonce", self->nonce);
    provider_text_pair(&self->url, "code_challenge", challenge);
    provider_text_pair(&self->url, "code_challenge_method", "S256");
    if (prompt)
        provider_text_pair(&self->url, "prompt", prompt);
    return !self->url.is_full && self->url.len <= OIDC_LOCATION_MAX;
}

bool oidc_ask_tokens(oidc_flow_t *self, const char *code)
{
    begin_request(self, self->metadata.token, OIDC_TOKENS_MAX);
    oidc_set(&self->headers[1], "Content-Type: application/x-www-form-urlencoded");
    provider_text_begin(&self->body, "");
    if (code) {
        provider_text_pair(&self->body, "grant_type", "authorization_code");
        provider_text_pair(&self->body, "code", code);
        provider_text_pair(&self->body, "redirect_uri", self->redirect_uri);
        provider_text_pair(&self->body, "code_verifier", self->verifier);
    } else {
        provider_text_pair(&self->body, "grant_type", "refresh_token");
        provider_text_pair(&self->body, "refresh_token", self->refresh_token);
    }
    if (self->metadata.takes_basic) {
        self->headers[2] = oidc_basic(self->client_id, self->client_secret);
    } else {
        provider_text_pair(&self->body, "client_id", self->client_id);
        provider_text_pair(&self->body, "client_secret", self->client_secret);
    }
    return !self->url.is_full && !self->body.is_full;
}

bool oidc_ask_userinfo(oidc_flow_t *self)
{
    static const char name[] = "Authorization: Bearer ";
    size_t size = sizeof(name) + strlen(self->access_token);

    begin_request(self, self->metadata.userinfo, OIDC_USERINFO_MAX);
    self->headers[1] = memory_need(malloc(size), "a request to a provider");
    snprintf(self->headers[1], size, "%s%s", name, self->access_token);
    return !self->url.is_full;
}
