#include "services/routes/sign_in_module.h"
#include "common/base/cleanup.h"
#include "common/schema/sign_in_digest.h"

#include <string.h>

const char *const sign_in_modules[] = {"oauth", "oidc", "saml", NULL};

bool sign_in_module_is(const char *name)
{
    const char *const *one = sign_in_modules;

    while (*one && strcmp(*one, name) != 0)
        one++;
    return *one;
}

void sign_in_module_set_revision(json_t *module, const json_t *before, int64_t now_ms)
{
    json_t *last = json_object_get(before, "revision");
    int64_t last_ms = json_integer_value(last);

    json_object_del(module, "revision");
    if (last)
        json_object_set(module, "revision", last);
    if (!last || !json_equal(module, before))
        json_object_set_new(module, "revision",
                            json_integer(now_ms > last_ms ? now_ms : last_ms + 1));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

/* Of oauth, that of the one provider that it has; "" where the application is the operator's. */
static const char *client_id_of(const json_t *config)
{
    json_t *provider;
    const char *name;

    json_object_foreach(json_object_get(config, "provider"), name, provider)
    {
        if (json_is_object(provider))
            return text_of(provider, "client_id");
    }
    return text_of(config, "client_id");
}

static char *seal_json(const secret_key_t *key, const json_t *whole)
{
    char *text = whole ? json_dumps(whole, JSON_COMPACT) : NULL;
    char *sealed = text ? secret_seal_for(key, SIGN_IN_SEALED, text, strlen(text)) : NULL;

    secret_free(&text, text ? strlen(text) : 0);
    return sealed;
}

/* What says whose it is, and nothing of its rules: enough to begin with, and short. */
static char *seal_place(const secret_key_t *key, const char *name, const json_t *row)
{
    _cleanup_(json_clear_ref) json_t *place =
        json_pack("{s:s, s:s, s:s, s:s}", "route", text_of(row, "id"), "account",
                  text_of(row, "account_id"), "edge", text_of(row, "edge_id"), "module", name);

    return seal_json(key, place);
}

static char *seal_whole(const secret_key_t *key, const char *name, const json_t *row,
                        const json_t *config)
{
    _cleanup_(json_clear_ref) json_t *whole =
        json_pack("{s:s, s:s, s:s, s:s, s:O}", "route", text_of(row, "id"), "account",
                  text_of(row, "account_id"), "edge", text_of(row, "edge_id"), "module", name,
                  "config", config);

    return seal_json(key, whole);
}

/* What postern-identity needs of the module: of saml not the key that signs nothing. */
static json_t *config_of(const char *name, const json_t *row)
{
    json_t *config = json_copy(json_object_get(row, name));

    json_object_del(config, "other_request_signing_key_pem");
    return config;
}

json_t *sign_in_module_publish_off(const secret_key_t *key, const char *name, const json_t *row)
{
    _cleanup_(json_clear_ref) json_t *config = config_of(name, row);
    _cleanup_(free_mem) char *sealed = seal_whole(key, name, row, config);

    return sealed ? json_pack("{s:s, s:s}", "module", name, "sealed", sealed) : NULL;
}

json_t *sign_in_module_publish(const secret_key_t *key, const char *name, const json_t *row)
{
    _cleanup_(json_clear_ref) json_t *config = config_of(name, row);
    _cleanup_(free_mem) char *sealed = seal_whole(key, name, row, config);
    _cleanup_(free_mem) char *place = seal_place(key, name, row);
    char digest[SIGN_IN_DIGEST_SIZE];

#define NUMBER(field) (json_int_t) json_integer_value(json_object_get(config, field))
#define SWITCH(field) json_is_true(json_object_get(config, field))
    if (!sealed || !place || sign_in_digest(key, name, config, digest))
        return NULL;
    return json_pack("{s:b, s:s, s:s, s:b, s:I, s:I, s:I, s:b, s:b, s:b, s:s, s:s, s:s, s:s}",
                     "enabled", SWITCH("enabled"), "module", name, "cookie_prefix",
                     text_of(config, "cookie_prefix"), "options_passthrough",
                     SWITCH("options_passthrough"), "inactivity_timeout",
                     NUMBER("inactivity_timeout"), "maximum_duration", NUMBER("maximum_duration"),
                     "auth_check_interval", NUMBER("auth_check_interval"), "allow_idp_initiated",
                     SWITCH("allow_idp_initiated"), "service_tokens", SWITCH("service_tokens"),
                     "bearer_tokens", SWITCH("bearer_tokens"), "client_id", client_id_of(config),
                     "digest", digest, "sealed", sealed, "place", place);
#undef NUMBER
#undef SWITCH
}
