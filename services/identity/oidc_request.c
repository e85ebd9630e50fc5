/* Requests of the oidc engine: URLs, forms and headers. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>

/* ---- texts that grow ---- */

void oidc_form_begin(oidc_form_t *self, const char *text)
{
    oidc_form_end(self);
    self->bytes = memory_new((size_t)OIDC_TEXT_MAX, "a request to a provider");
    self->size = OIDC_TEXT_MAX;
    oidc_form_add(self, text);
}

void oidc_form_end(oidc_form_t *self)
{
    if (self->bytes)
        sodium_memzero(self->bytes, self->size);
    free(self->bytes);
    *self = (oidc_form_t){0};
}

void oidc_form_fit(oidc_form_t *self)
{
    char *old = self->bytes;

    if (!old || self->size == self->len + 1)
        return;
    self->bytes = memory_copy(old, "a request to a provider");
    sodium_memzero(old, self->len);
    free(old);
    self->size = self->len + 1;
}

static void add_bytes(oidc_form_t *self, const char *bytes, size_t len)
{
    if (len >= self->size - self->len) {
        self->is_full = true;
        return;
    }
    memcpy(self->bytes + self->len, bytes, len);
    self->len += len;
    self->bytes[self->len] = '\0';
}

void oidc_form_add(oidc_form_t *self, const char *text)
{
    add_bytes(self, text, strlen(text));
}

/* A space is %20, which readers of queries and of forms both take. */
static void add_encoded(oidc_form_t *self, const char *text)
{
    static const char hex[] = "0123456789ABCDEF";

    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        char escape[] = {'%', hex[c >> 4], hex[c & 15]};
        bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')
                        || strchr("-._~", c);

        add_bytes(self, is_plain ? text : escape, is_plain ? 1 : sizeof(escape));
    }
}

/* A body has nothing before its first pair, a URL perhaps a query of its own. */
static const char *separator_of(const oidc_form_t *self)
{
    bool is_url = self->len && !strncmp(self->bytes, "https://", strlen("https://"));

    if (!self->len || strchr("?&", self->bytes[self->len - 1]))
        return "";
    return is_url && !strchr(self->bytes, '?') ? "?" : "&";
}

void oidc_form_pair(oidc_form_t *self, const char *name, const char *value)
{
    oidc_form_add(self, separator_of(self));
    oidc_form_add(self, name);
    oidc_form_add(self, "=");
    add_encoded(self, value);
}

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

static bool add_scope(oidc_form_t *list, const char *scope)
{
    if (!scope || !oidc_is_visible(scope) || strpbrk(scope, "\"\\"))
        return false;
    if (!has_word(list->bytes, scope)) {
        oidc_form_add(list, " ");
        oidc_form_add(list, scope);
    }
    return !list->is_full;
}

char *oidc_scopes(const json_t *own)
{
    oidc_form_t list = {0};
    bool is_good = !own || json_is_array(own) || json_is_null(own);
    const json_t *item;
    char *scopes = NULL;
    size_t i;

    oidc_form_begin(&list, "openid");
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
    oidc_form_end(&list);
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
    oidc_form_t both = {0};
    size_t size;
    char *header;

    oidc_form_begin(&both, "");
    add_encoded(&both, client_id);
    oidc_form_add(&both, ":");
    add_encoded(&both, client_secret);
    size = sizeof(name) + sodium_base64_ENCODED_LEN(both.len, sodium_base64_VARIANT_ORIGINAL);
    header = memory_need(malloc(size), "credentials of a client");
    memcpy(header, name, sizeof(name) - 1);
    sodium_bin2base64(header + sizeof(name) - 1, size - (sizeof(name) - 1),
                      (const unsigned char *)both.bytes, both.len, sodium_base64_VARIANT_ORIGINAL);
    oidc_form_end(&both);
    return header;
}

/* ---- requests ---- */

static void begin_request(oidc_flow_t *self, const char *url, size_t max_bytes)
{
    for (size_t i = 0; i < LEN(self->headers); i++)
        oidc_set(&self->headers[i], NULL);
    oidc_form_end(&self->body);
    oidc_form_begin(&self->url, url);
    oidc_set(&self->headers[0], "Accept: application/json");
    self->max_bytes = max_bytes;
}

bool oidc_ask_metadata(oidc_flow_t *self)
{
    size_t len = strlen(self->issuer);

    begin_request(self, self->issuer, OIDC_METADATA_MAX);
    if (self->issuer[len - 1] == '/')
        self->url.bytes[--self->url.len] = '\0';
    oidc_form_add(&self->url, "/.well-known/openid-configuration");
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
    oidc_form_begin(&self->url, self->metadata.authorization);
    oidc_form_pair(&self->url, "response_type", "code");
    oidc_form_pair(&self->url, "client_id", self->client_id);
    oidc_form_pair(&self->url, "redirect_uri", self->redirect_uri);
    oidc_form_pair(&self->url, "scope", self->scopes);
    oidc_form_pair(&self->url, "state", self->state);
    oidc_form_pair(&self->url, "nonce", self->nonce);
    oidc_form_pair(&self->url, "code_challenge", challenge);
    oidc_form_pair(&self->url, "code_challenge_method", "S256");
    if (prompt)
        oidc_form_pair(&self->url, "prompt", prompt);
    return !self->url.is_full && self->url.len <= OIDC_LOCATION_MAX;
}

bool oidc_ask_tokens(oidc_flow_t *self, const char *code)
{
    begin_request(self, self->metadata.token, OIDC_TOKENS_MAX);
    oidc_set(&self->headers[1], "Content-Type: application/x-www-form-urlencoded");
    oidc_form_begin(&self->body, "");
    if (code) {
        oidc_form_pair(&self->body, "grant_type", "authorization_code");
        oidc_form_pair(&self->body, "code", code);
        oidc_form_pair(&self->body, "redirect_uri", self->redirect_uri);
        oidc_form_pair(&self->body, "code_verifier", self->verifier);
    } else {
        oidc_form_pair(&self->body, "grant_type", "refresh_token");
        oidc_form_pair(&self->body, "refresh_token", self->refresh_token);
    }
    if (self->metadata.takes_basic) {
        self->headers[2] = oidc_basic(self->client_id, self->client_secret);
    } else {
        oidc_form_pair(&self->body, "client_id", self->client_id);
        oidc_form_pair(&self->body, "client_secret", self->client_secret);
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
