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
