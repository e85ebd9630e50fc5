/* Metadata of a provider: OpenID Connect Discovery 1.0, sections 3 and 4.3. */
#include "common/base/cleanup.h"
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <string.h>

void oidc_metadata_done(oidc_metadata_t *self)
{
    free(self->authorization);
    free(self->token);
    free(self->keys);
    free(self->userinfo);
    free(self->end_session);
    *self = (oidc_metadata_t){0};
}

/* Parameters of an authorization request that the endpoint's own query may not have: the provider
 * would choose between two. */
static bool has_parameter_of_ours(const char *url)
{
    static const char *const ours[] = {"client_id",     "redirect_uri",   "response_type",
                                       "response_mode", "scope",          "state",
                                       "nonce",         "prompt",         "max_age",
                                       "request",       "code_challenge", "code_challenge_method",
                                       "request_uri",   "login_hint"};
    const char *at = strchr(url, '?');

    while (at) {
        size_t len = strcspn(++at, "=&");

        /* A name that is escaped can be any. */
        if (memchr(at, '%', len))
            return true;
        for (size_t i = 0; i < LEN(ours); i++)
            if (strlen(ours[i]) == len && !strncmp(at, ours[i], len))
                return true;
        at = strchr(at, '&');
    }
    return false;
}

/* A copy of an endpoint; NULL: it is not there. False: it is no URL that may be used. */
static bool take_url(const json_t *document, const char *name, char **ret_url)
{
    const char *url = oidc_text(document, name, OIDC_URL_MAX);

    *ret_url = NULL;
    if (!json_object_get(document, name))
        return true;
    if (!url || !oidc_is_url(url))
        return false;
    *ret_url = memory_copy(url, "an endpoint of a provider");
    return true;
}

static bool is_list(const json_t *document, const char *name)
{
    const json_t *list = json_object_get(document, name);
    const json_t *item;
    size_t i;

    json_array_foreach(list, i, item)
    {
        if (!json_is_string(item))
            return false;
    }
    return json_array_size(list) > 0;
}

static const char *take_endpoints(oidc_metadata_t *self, const json_t *document)
{
    if (!take_url(document, "authorization_endpoint", &self->authorization) || !self->authorization)
        return "authorization_endpoint of the metadata is no https URL";
    if (has_parameter_of_ours(self->authorization))
        return "authorization_endpoint of the metadata has a parameter that a request sets";
    if (!take_url(document, "token_endpoint", &self->token) || !self->token)
        return "token_endpoint of the metadata is no https URL";
    if (!take_url(document, "jwks_uri", &self->keys) || !self->keys)
        return "jwks_uri of the metadata is no https URL";
    if (!take_url(document, "userinfo_endpoint", &self->userinfo))
        return "userinfo_endpoint of the metadata is no https URL";
    if (!take_url(document, "end_session_endpoint", &self->end_session))
        return "end_session_endpoint of the metadata is no https URL";
    return NULL;
}

static const char *take_abilities(oidc_metadata_t *self, const json_t *document)
{
    static const char methods[] = "token_endpoint_auth_methods_supported";
    const json_t *says =
        json_object_get(document, "authorization_response_iss_parameter_supported");

    if (!is_list(document, "response_types_supported")
        || !oidc_lists(document, "response_types_supported", "code"))
        return "response_types_supported of the metadata lacks code";
    if (!is_list(document, "subject_types_supported"))
        return "subject_types_supported of the metadata is no list of texts";
    if (!is_list(document, "id_token_signing_alg_values_supported"))
        return "id_token_signing_alg_values_supported of the metadata is no list of texts";
    if (says && !json_is_boolean(says))
        return "authorization_response_iss_parameter_supported of the metadata is no boolean";
    self->says_issuer = json_is_true(says);
    self->takes_basic =
        !json_object_get(document, methods) || oidc_lists(document, methods, "client_secret_basic");
    self->takes_post = oidc_lists(document, methods, "client_secret_post");
    if (!self->takes_basic && !self->takes_post)
        return "token_endpoint_auth_methods_supported of the metadata has neither "
               "client_secret_basic nor client_secret_post";
    return NULL;
}

const char *oidc_metadata_read(oidc_metadata_t *self, const char *text, size_t len,
                               const char *issuer)
{
    _cleanup_(json_clear_ref) json_t *document =
        len <= OIDC_METADATA_MAX ? oidc_json(text, len) : NULL;
    const char *fault = NULL, *name = oidc_text(document, "issuer", OIDC_URL_MAX);

    *self = (oidc_metadata_t){0};
    if (!document)
        fault = "the metadata is no JSON object, or beyond the limits";
    else if (!name || strcmp(name, issuer) != 0)
        fault = "the metadata is another issuer's: its issuer must be the route's to the letter";
    if (!fault)
        fault = take_endpoints(self, document);
    if (!fault)
        fault = take_abilities(self, document);
    if (fault)
        oidc_metadata_done(self);
    return fault;
}
