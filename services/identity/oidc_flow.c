/* A flow's memory: what it was begun with, and whether that will do, what it weighs, its end. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "common/base/secret.h"
#include "services/identity/oidc_internal.h"

#include <stdio.h>
#include <string.h>

void oidc_set(char **text_p, const char *value)
{
    char *copy = value ? memory_copy(value, "a sign-in") : NULL;

    if (*text_p)
        secret_free(text_p, strlen(*text_p));
    *text_p = copy;
}

/* A text of the module's document; NULL: it is none. */
static char *config_copy(const json_t *config, const char *name, size_t max)
{
    const char *text = oidc_text(config, name, max);

    return text ? memory_copy(text, "a sign-in") : NULL;
}

static void take_known(oidc_flow_t *self, const person_t *known)
{
    if (!known)
        return;
    oidc_set(&self->known.provider_url, known->provider_url);
    oidc_set(&self->known.id, known->id);
    oidc_set(&self->known.username, known->username);
    oidc_set(&self->known.name, known->name);
    oidc_set(&self->known.email, known->email);
    oidc_set(&self->known.id_token, known->id_token);
    oidc_set(&self->known.session_at_provider, known->session_at_provider);
    self->known.email_verified = known->email_verified;
    self->known.groups = json_deep_copy(known->groups);
    self->access_expires_s = known->access_expires_s;
}

static const char *config_fault(const oidc_flow_t *self)
{
    if (!self->issuer || !oidc_is_url(self->issuer) || strchr(self->issuer, '?'))
        return "issuer must be an https URL without query";
    if (!self->client_id || !self->client_secret)
        return "client_id and client_secret must be there";
    return self->scopes ? NULL : "a scope has characters that no scope has (RFC 6749 3.3)";
}

static const char *ask_fault(oidc_flow_t *self)
{
    const char *fault = config_fault(self);

    if (fault)
        return fault;
    if (self->operation == PROVIDER_LEAVE)
        return self->redirect_uri ? NULL : "it is not known where to come back to";
    if (self->operation == PROVIDER_ENDED)
        return oidc_begin_ended(self);
    if (self->operation == PROVIDER_BEARER)
        return oidc_begin_bearer(self);
    if (self->operation == PROVIDER_REFRESH)
        return self->known.id && self->known.provider_url ? NULL : "it is not known whom to renew";
    if (!self->redirect_uri || !self->state || !self->nonce || !self->verifier)
        return "redirect_uri, state, nonce and verifier must be there";
    return self->operation == PROVIDER_CALLBACK && !json_is_object(self->params)
               ? "the answer has no parameters"
               : NULL;
}

int oidc_flow_start(void **ret_flow, int operation, const provider_ask_t *ask)
{
    oidc_flow_t *self = memory_new(sizeof(*self), "a sign-in");

    self->operation = (provider_operation_t)operation;
    snprintf(self->account, sizeof(self->account), "%s", ask->account ? ask->account : "");
    self->now_s = ask->now_s;
    self->is_forced = ask->force;
    self->cache = ask->cache;
    self->issuer = config_copy(ask->config, "issuer", OIDC_URL_MAX);
    self->client_id = config_copy(ask->config, "client_id", 1024);
    self->client_secret = config_copy(ask->config, "client_secret", 4096);
    self->groups_claim = config_copy(ask->config, "groups_claim", OIDC_ID_MAX);
    self->scopes = oidc_scopes(json_object_get(ask->config, "scopes"));
    oidc_set(&self->redirect_uri, ask->redirect_uri);
    oidc_set(&self->state, ask->state);
    oidc_set(&self->nonce, ask->nonce);
    oidc_set(&self->verifier, ask->verifier);
    oidc_set(&self->refresh_token, ask->refresh_token);
    oidc_set(&self->access_token, ask->access_token);
    self->params = ask->params ? json_deep_copy(ask->params) : NULL;
    if (operation == PROVIDER_BEARER)
        self->audiences = json_deep_copy(json_object_get(ask->config, "bearer_audiences"));
    take_known(self, ask->known);
    self->fault = ask_fault(self);
    *ret_flow = self;
    return 0;
}

void oidc_flow_free(void **flow_p)
{
    oidc_flow_t *self = take(*flow_p);
    char **const texts[] = {&self->issuer,        &self->client_id, &self->client_secret,
                            &self->redirect_uri,  &self->state,     &self->nonce,
                            &self->verifier,      &self->scopes,    &self->access_token,
                            &self->refresh_token, &self->id_token,  &self->old_text,
                            &self->groups_claim};

    if (!self)
        return;
    provider_cache_end(self->cache, self->key_fetch, false);
    for (size_t i = 0; i < LEN(texts); i++)
        oidc_set(texts[i], NULL);
    for (size_t i = 0; i < LEN(self->headers); i++)
        oidc_set(&self->headers[i], NULL);
    json_decref(self->params);
    json_decref(self->audiences);
    json_decref(self->userinfo);
    person_done(&self->known);
    oidc_token_done(&self->token);
    oidc_metadata_done(&self->metadata);
    provider_text_end(&self->url);
    provider_text_end(&self->body);
    free(self);
}

static size_t length_of(const char *text)
{
    return text ? strlen(text) : 0;
}

size_t oidc_flow_weight(void *flow)
{
    const oidc_flow_t *self = flow;
    const char *const texts[] = {
        self->issuer,         self->client_id,      self->client_secret,
        self->scopes,         self->access_token,   self->refresh_token,
        self->id_token,       self->known.name,     self->known.email,
        self->known.id,       self->known.id_token, self->metadata.authorization,
        self->metadata.token, self->metadata.keys,  self->metadata.userinfo,
        self->headers[1],     self->headers[2]};
    size_t weight = sizeof(*self) + self->url.size + self->body.size + self->token.signature_len
                    + (self->old_text ? self->old_len : 0);

    for (size_t i = 0; i < LEN(texts); i++)
        weight += length_of(texts[i]);
    return weight + memory_json_weight(self->params) + memory_json_weight(self->known.groups)
           + memory_json_weight(self->audiences) + memory_json_weight(self->token.header)
           + memory_json_weight(self->token.claims) + memory_json_weight(self->userinfo);
}
