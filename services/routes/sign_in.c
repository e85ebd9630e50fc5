/* The modules oauth, oidc and saml, as edges get them: what an edge needs to know in clear, and all
 * of the module sealed, which the edge carries to postern-identity and cannot read. */
#include "common/base/cleanup.h"
#include "common/schema/sign_in_digest.h"
#include "services/routes/rules.h"

#include <errno.h>
#include <string.h>

/* Set once, before the workers start. */
static secret_key_t *identity_key; /* NULL: the master key, which identity has, too */

int sign_in_modules_setup(const config_t *config)
{
    return *config_str(config, "sign-in-key")
               ? secret_key_load(&identity_key, config_str(config, "sign-in-key"))
               : 0;
}

bool sign_in_is_module(const char *name)
{
    return !strcmp(name, "oauth") || !strcmp(name, "oidc") || !strcmp(name, "saml");
}

static json_t *number_of(const json_t *config, const char *field)
{
    return json_integer(json_integer_value(json_object_get(config, field)));
}

static json_t *bool_of(const json_t *config, const char *field)
{
    return json_boolean(json_is_true(json_object_get(config, field)));
}

static json_t *text_of(const json_t *config, const char *field)
{
    const char *text = json_string_value(json_object_get(config, field));

    return json_string(text ? text : "");
}

/* Of the application at the provider. */
static json_t *client_of(const char *module, const json_t *config)
{
    const char *name;
    json_t *provider;

    if (strcmp(module, "oauth") != 0)
        return text_of(config, "client_id");
    json_object_foreach(json_object_get(config, "provider"), name, provider)
        if (json_is_object(provider))
            return text_of(provider, "client_id");
    return json_string("");
}

static int seal_module(const secret_key_t *key, const json_t *row, const char *module,
                       const json_t *config, char **ret_sealed)
{
    _cleanup_(json_clear_ref) json_t *all =
        json_pack("{s:O, s:O, s:O, s:s, s:O}", "route", json_object_get(row, "id"), "account",
                  json_object_get(row, "account_id"), "edge", json_object_get(row, "edge_id"),
                  "module", module, "config", config);
    char *text = all ? json_dumps(all, JSON_COMPACT) : NULL;

    if (!text)
        return -ENOMEM;
    *ret_sealed = secret_seal(key, text, strlen(text));
    secret_free(&text, strlen(text));
    return *ret_sealed ? 0 : -ENOMEM;
}

int sign_in_module_publish(const crud_t *crud, const json_t *row, const char *module,
                           json_t **ret_document)
{
    const secret_key_t *key = identity_key ? identity_key : crud->key;
    const json_t *config = json_object_get(row, module);
    _cleanup_(free_mem) char *sealed = NULL;
    char digest[SIGN_IN_DIGEST_SIZE];
    int r = sign_in_digest(key, module, config, digest);

    if (!r)
        r = seal_module(key, row, module, config, &sealed);
    if (r)
        return r;
    *ret_document = json_pack(
        "{s:b, s:s, s:o, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:s}", "enabled", 1, "module", module,
        "cookie_prefix", text_of(config, "cookie_prefix"), "options_passthrough",
        bool_of(config, "options_passthrough"), "inactivity_timeout",
        number_of(config, "inactivity_timeout"), "maximum_duration",
        number_of(config, "maximum_duration"), "auth_check_interval",
        number_of(config, "auth_check_interval"), "allow_idp_initiated",
        bool_of(config, "allow_idp_initiated"), "client_id", client_of(module, config), "digest",
        digest, "sealed", sealed);
    return *ret_document ? 0 : -ENOMEM;
}
