/* Who it is, by what the ID token and userinfo say (OpenID Connect Core 5.1). Userinfo is the later
 * word; what is too long, or no text, is as if the provider did not say it. */
#include "common/base/memory.h"
#include "services/identity/oidc_internal.h"

#include <string.h>

static const char *claim_of(const json_t *claims, const json_t *userinfo, const char *name)
{
    const char *text = oidc_text(userinfo, name, OIDC_ID_MAX);

    return text ? text : oidc_text(claims, name, OIDC_ID_MAX);
}

/* Address and verification come from the same place. Some providers write the boolean as text. */
static void set_email(person_t *self, const json_t *from)
{
    const json_t *verified = json_object_get(from, "email_verified");
    const char *text = json_string_value(verified);

    oidc_set(&self->email, oidc_text(from, "email", OIDC_EMAIL_MAX));
    self->email_verified =
        self->email && (json_is_true(verified) || (text && !strcmp(text, "true")));
}

/* One that does not fit any more is left out, as are all behind it: what is missing admits
 * nobody. */
static void add_group(json_t *groups, const json_t *value, size_t *left)
{
    const char *text = json_string_value(value);
    size_t len = json_string_length(value);

    if (!text || !len || len > OIDC_ID_MAX)
        return;
    if (len > *left || json_array_size(groups) == OIDC_GROUPS) {
        *left = 0;
        return;
    }
    *left -= len;
    json_array_append_new(groups, json_string(text));
}

static json_t *groups_of(const json_t *value)
{
    json_t *groups = json_array();
    size_t left = OIDC_GROUPS_BYTES;
    const json_t *item;
    size_t i;

    add_group(groups, value, &left);
    json_array_foreach(value, i, item)
    {
        add_group(groups, item, &left);
    }
    return groups;
}

void oidc_person_set(person_t *self, const json_t *claims, const json_t *userinfo,
                     const char *groups)
{
    const json_t *list = json_object_get(userinfo, groups);

    oidc_set(&self->username, claim_of(claims, userinfo, "preferred_username"));
    oidc_set(&self->name, claim_of(claims, userinfo, "name"));
    set_email(self, json_object_get(userinfo, "email") ? userinfo : claims);
    json_decref(self->groups);
    self->groups = groups_of(list ? list : json_object_get(claims, groups));
}

/* The provider was asked again and said no more than that it still vouches. */
static void copy_known(const oidc_flow_t *self, person_t *out)
{
    oidc_set(&out->username, self->known.username);
    oidc_set(&out->name, self->known.name);
    oidc_set(&out->email, self->known.email);
    out->email_verified = self->known.email_verified;
    out->groups = self->known.groups ? json_deep_copy(self->known.groups) : json_array();
}

/* When the ID token was made. */
static int64_t vouched_ms(const json_t *claims)
{
    int64_t time_s;

    return oidc_time(json_object_get(claims, "iat"), &time_s) ? 1000 * time_s : 0;
}

void oidc_flow_person(void *flow, person_t *out)
{
    const oidc_flow_t *self = flow;
    const json_t *claims = self->is_verified ? self->token.claims : NULL;
    const char *session = oidc_text(claims, "sid", OIDC_ID_MAX);

    *out = (person_t){.access_expires_s = self->access_expires_s};
    oidc_set(&out->provider_name, "oidc");
    oidc_set(&out->provider_url, self->issuer);
    oidc_set(&out->id, claims ? oidc_text(claims, "sub", OIDC_ID_MAX) : self->known.id);
    if (claims || self->userinfo)
        oidc_person_set(out, claims, self->userinfo,
                        self->groups_claim ? self->groups_claim : "groups");
    else
        copy_known(self, out);
    if (self->operation == PROVIDER_BEARER && !out->name) /* of a program (RFC 9068 2.2) */
        oidc_set(&out->name, oidc_text(claims, "client_id", OIDC_ID_MAX));
    oidc_set(&out->refresh_token, self->refresh_token);
    oidc_set(&out->access_token, self->access_token);
    oidc_set(&out->id_token, claims ? self->id_token : self->known.id_token);
    oidc_set(&out->session_at_provider, session ? session : self->known.session_at_provider);
    out->session_until_s = self->token_expires_s;
    out->vouched_ms = vouched_ms(claims);
}

bool oidc_flow_tokens(void *flow, person_t *out)
{
    const oidc_flow_t *self = flow;

    *out = (person_t){0};
    if (!self->has_new_tokens)
        return false;
    oidc_set(&out->refresh_token, self->refresh_token);
    oidc_set(&out->access_token, self->access_token);
    out->access_expires_s = self->access_expires_s;
    return true;
}
