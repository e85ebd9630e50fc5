/* https_edge_route: the rules that the modules' tables cannot express. */
#include "common/base/cleanup.h"
#include "common/base/id.h"
#include "common/base/log.h"
#include "common/codec/regex.h"
#include "common/codec/webhook.h"
#include "common/resource/kind_rules.h"
#include "services/routes/publish.h"
#include "services/routes/rules.h"
#include "services/routes/saml_keys.h"
#include "services/routes/sign_in_module.h"
#include "services/routes/header_names.h"

#include <errno.h>
#include <string.h>
#include <strings.h>

enum { ROUTES_MAX = 1000 };

static const json_t *module_of(const json_t *document, const char *name)
{
    const json_t *value = json_object_get(document, name);

    return json_is_object(value) ? value : NULL;
}

static bool is_enabled(const json_t *document, const char *name)
{
    const json_t *value = module_of(document, name);

    return value && json_is_true(json_object_get(value, "enabled"));
}

static const char *text_of(const json_t *object, const char *key)
{
    const char *value = json_string_value(json_object_get(object, key));

    return value ? value : "";
}

/* The provider sends browsers back to a path below that of the route, which one that matches one
 * path alone does not have. */
static void check_sign_in_paths(const json_t *document, problem_t *problem)
{
    if (strcmp(text_of(document, "match_type"), "exact_path") != 0)
        return;
    for (const char *const *name = sign_in_modules; *name; name++)
        if (is_enabled(document, *name))
            problem_add(problem, ERR_INVALID_FIELD, "match_type",
                        "must be path_prefix where %s is enabled: people who have signed in come "
                        "back to paths below the route's",
                        *name);
}

static void check_auth(const json_t *document, problem_t *problem)
{
    if (is_enabled(document, "oauth") + is_enabled(document, "oidc") + is_enabled(document, "saml")
        > 1)
        problem_add(problem, ERR_AUTH_MODULES_CONFLICT,
                    is_enabled(document, "oauth") ? "oauth" : "oidc",
                    "only one of oauth, oidc and saml can be enabled on a route");
}

static void check_oauth(const json_t *document, problem_t *problem)
{
    const json_t *oauth = module_of(document, "oauth");
    json_t *provider;
    const char *name;
    int given = 0;

    if (!oauth)
        return;
    json_object_foreach(json_object_get(oauth, "provider"), name, provider)
    {
        const char *id, *secret, *why;
        char path[80];

        if (!json_is_object(provider))
            continue;
        given++;
        id = text_of(provider, "client_id");
        secret = text_of(provider, "client_secret");
        snprintf(path, sizeof(path), "oauth.provider.%s", name);
        if (!*id != !*secret)
            problem_add(problem, ERR_OAUTH_CLIENT_PAIR, path,
                        "client_id and client_secret must be given together");
        if (!*id && json_array_size(json_object_get(provider, "scopes")))
            problem_add(problem, ERR_OAUTH_SCOPES_MANAGED, path,
                        "scopes need your own client_id and client_secret");
        why = *id ? NULL : oauth_application_refusal(name);
        if (why)
            problem_add(problem, ERR_OAUTH_NO_MANAGED_APP, path, "%s", why);
    }
    if (given != 1)
        problem_add(problem, ERR_OAUTH_PROVIDER_COUNT, "oauth.provider",
                    "needs exactly one provider, not %d", given);
}

/* Without an audience a token that was given for any other API would be let in. */
static void check_oidc(const json_t *document, problem_t *problem)
{
    const json_t *oidc = module_of(document, "oidc");

    if (oidc && json_is_true(json_object_get(oidc, "bearer_tokens"))
        && !json_array_size(json_object_get(oidc, "bearer_audiences")))
        problem_add(problem, ERR_REQUIRED_MISSING, "oidc.bearer_audiences",
                    "is required where bearer_tokens is true: the aud of the tokens that are meant "
                    "for this route");
}

/* What no edge could verify is not stored. */
static void check_webhook(const json_t *document, problem_t *problem)
{
    const json_t *webhook = module_of(document, "webhook_verification");
    const webhook_provider_t *row =
        webhook ? webhook_provider_find(text_of(webhook, "provider")) : NULL;
    const char *secret = webhook ? text_of(webhook, "secret") : "", *why;

    if (!row)
        return;
    why = webhook_provider_refusal(row);
    if (why) {
        problem_add(problem, ERR_WEBHOOK_UNVERIFIABLE, "webhook_verification.provider", "%s", why);
        return;
    }
    why = webhook_secret_fault(row, secret);
    if (why)
        problem_add(problem, ERR_WEBHOOK_SECRET, "webhook_verification.secret", "%s", why);
}

static void check_headers(const json_t *document, const char *name, bool request,
                          problem_t *problem)
{
    const json_t *headers = module_of(document, name);
    const char *key, *why;
    json_t *item;
    char path[300];
    size_t i;

    if (!headers)
        return;
    json_object_foreach(json_object_get(headers, "add"), key, item)
    {
        (void)item;
        snprintf(path, sizeof(path), "%s.add.%s", name, key);
        why = header_name_refusal(key);
        if (why)
            problem_add(problem, ERR_HEADER_INVALID, path, "%s", why);
    }
    json_array_foreach(json_object_get(headers, "remove"), i, item)
    {
        snprintf(path, sizeof(path), "%s.remove[%zu]", name, i);
        why = header_name_refusal(json_string_value(item));
        if (why)
            problem_add(problem, ERR_HEADER_INVALID, path, "%s", why);
        if (request && !strcasecmp(json_string_value(item), "host")
            && !json_object_get(json_object_get(headers, "add"), "host"))
            problem_add(problem, ERR_HEADER_PROTECTED, path,
                        "the host header can be removed only with a replacement in add");
        if (request && !strcasecmp(json_string_value(item), "user-agent"))
            problem_add(problem, ERR_HEADER_PROTECTED, path, "the user-agent header is fixed");
    }
}

/* Each expression was compiled by itself; edges compile a list of them as one. */
static void check_agents(const json_t *document, const char *name, problem_t *problem)
{
    const json_t *list = json_object_get(module_of(document, "user_agent_filter"), name), *item;
    _cleanup_(regex_set_destroy) regex_set_t *set = NULL;
    const char *patterns[64];
    char path[64], why[80];
    size_t i, count = 0;

    json_array_foreach(list, i, item)
    {
        if (count < sizeof(patterns) / sizeof(patterns[0]))
            patterns[count++] = json_string_value(item);
    }
    if (!count || !regex_set_new(&set, patterns, count, why, sizeof(why)))
        return;
    snprintf(path, sizeof(path), "user_agent_filter.%s", name);
    problem_add(problem, ERR_UA_REGEX, path, "%s", why);
}

/* Keys of RSA take a quarter of a second of a processor each, which on a busy machine is longer
 * than a transaction may be idle. */
enum { KEYS_MS = 10000 };

/* Complete the service provider's half of saml: its URLs and its keys. */
static int complete_saml(crud_t *crud, json_t *document, const json_t *old, problem_t *problem)
{
    json_t *saml = json_object_get(document, "saml");
    const json_t *before = old ? module_of(old, "saml") : NULL;
    const char *id = text_of(document, "id");
    int r;

    if (!json_is_object(saml))
        return 0;
    json_object_set_new(saml, "entity_id", json_sprintf("%s/saml/%s", sign_in_url(), id));
    json_object_set_new(saml, "metadata_url", json_sprintf("%s/saml/%s", sign_in_url(), id));
    json_object_set_new(saml, "assertion_consumer_service_url",
                        json_sprintf("%s/saml/%s/acs", sign_in_url(), id));
    json_object_set_new(saml, "single_logout_url",
                        json_sprintf("%s/saml/%s/slo", sign_in_url(), id));
    r = pg_allow_idle(crud->pg, KEYS_MS);
    return r ? r : saml_keys_complete(saml, before, id, problem);
}

/* What tells a module that signs people in from one that the route had before: kept over updates. A
 * module of a version that did not know of it has none, and keeps none. */
static void complete_made(json_t *document, const json_t *old)
{
    for (const char *const *name = sign_in_modules; *name; name++) {
        json_t *module = json_object_get(document, *name);
        const json_t *before = old ? module_of(old, *name) : NULL;
        char made[ID_MAX];

        if (!json_is_object(module))
            continue;
        id_make("made", made);
        json_object_set_new(module, "made_id",
                            before ? json_incref(json_object_get(before, "made_id"))
                                   : json_string(made));
    }
}

/* The rest of the document is complete. */
static void complete_revisions(json_t *document, const json_t *old)
{
    for (const char *const *name = sign_in_modules; *name; name++) {
        json_t *module = json_object_get(document, *name);

        if (json_is_object(module))
            sign_in_module_set_revision(module, old ? module_of(old, *name) : NULL, bus_now_ms());
    }
}

static int check_count(crud_t *crud, const json_t *document, problem_t *problem)
{
    _cleanup_(pgresult_clear) PGresult *res = NULL;
    int r;

    r = pg_exec(crud->pg, &res, "SELECT count(*) FROM https_edge_route WHERE edge_id = $1", 1,
                text_of(document, "edge_id"));
    if (!r && strtol(PQgetvalue(res, 0, 0), NULL, 10) >= ROUTES_MAX)
        return problem_add(problem, ERR_TOO_MANY_ROUTES, NULL, "an edge has at most %d routes",
                           ROUTES_MAX);
    return r;
}

static int https_edge_route_check(crud_t *crud, json_t *document, const json_t *old,
                                  json_t *references, problem_t *problem)
{
    int r = 0;

    (void)references;
    check_auth(document, problem);
    check_sign_in_paths(document, problem);
    check_oauth(document, problem);
    check_oidc(document, problem);
    check_webhook(document, problem);
    check_agents(document, "allow", problem);
    check_agents(document, "deny", problem);
    check_headers(document, "request_headers", true, problem);
    check_headers(document, "response_headers", false, problem);
    if (!old)
        r = check_count(crud, document, problem);
    if (r < 0 || problem->code)
        return r < 0 ? r : problem->code;
    complete_made(document, old);
    r = complete_saml(crud, document, old, problem);
    if (!r)
        complete_revisions(document, old);
    return r;
}

/* ---- what edges get ---- */

/* Set once, before requests. */
static secret_key_t *identity_key; /* NULL: the master key */
static char
    published_form[24]; /* of what edges are told now: how column sign_in_published begins */

/* Rises when the document of a sign-in module changes, so that all are published anew. */
static const char FORM[] = "3";

static const secret_key_t *sign_in_key(const crud_t *crud)
{
    return identity_key ? identity_key : crud->key;
}

/* What column sign_in_published is, where edges have what the row says; $1 is the form. */
#define PUBLISHED                                                                                  \
    "$1::text || ' ' || encode(sha256(convert_to(format('%s|%s|%s', oauth, oidc, saml), "          \
    "'UTF8')), "                                                                                   \
    "'hex')"

static int note_published(crud_t *crud, const char *id)
{
    return pg_defer(crud->pg,
                    "UPDATE https_edge_route SET sign_in_published = " PUBLISHED " WHERE id = $2",
                    2, published_form, id);
}

/* Add to a list of the document, which is made where there is none. 0 | -ENOMEM. */
static int append_to(json_t *document, const char *name, json_t *value)
{
    json_t *list = json_object_get(document, name);

    if (!list) {
        list = json_array();
        json_object_set_new(document, name, list);
    }
    return json_array_append_new(list, value) ? -ENOMEM : 0;
}

/* Of a module that signs people in and is off edges get the prefix of its cookies, which browsers
 * have still, and which no upstream is to see, and what its provider's sign-outs are taken with:
 * sessions that it ends meanwhile are not good again when the module is on. */
static int add_off(crud_t *crud, const json_t *row, const char *name, json_t *document,
                   bool *ret_sign_in)
{
    json_t *module = json_object_get(row, name);
    json_t *prefix = json_object_get(module, "cookie_prefix");
    int r = 0;

    if (!sign_in_module_is(name) || !json_is_object(module))
        return 0;
    if (json_string_length(prefix))
        r = append_to(document, "cookie_prefixes", json_incref(prefix));
    if (r || !strcmp(name, "oauth"))
        return r;
    *ret_sign_in = true;
    return append_to(document, "sign_outs",
                     sign_in_module_publish_off(sign_in_key(crud), name, row));
}

/* Edges get every enabled module; a disabled one is left out, as if it were not there, but for what
 * add_off adds. Of those
 * that sign people in they get what they need and no secret. */
static int add_modules(crud_t *crud, const json_t *row, json_t *document, bool *ret_sign_in)
{
    const kind_t *kind = kind_find("https_edge_route");

    for (const field_t *field = kind->type.fields; field->name; field++) {
        if (field->type != FIELD_NESTED)
            continue;
        if (!is_enabled(row, field->name)) {
            if (add_off(crud, row, field->name, document, ret_sign_in))
                return -ENOMEM;
            continue;
        }
        if (!sign_in_module_is(field->name)) {
            json_object_set(document, field->name, json_object_get(row, field->name));
            continue;
        }
        *ret_sign_in = true;
        if (json_object_set_new(document, field->name,
                                sign_in_module_publish(sign_in_key(crud), field->name, row)))
            return -ENOMEM;
    }
    return 0;
}

static int https_edge_route_publish(crud_t *crud, const json_t *row, json_t **ret_document)
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    bool sign_in = false;
    int r;

    document =
        json_pack("{s:O, s:O, s:O, s:O}", "account_id", json_object_get(row, "account_id"),
                  "edge_id", json_object_get(row, "edge_id"), "match_type",
                  json_object_get(row, "match_type"), "match", json_object_get(row, "match"));
    if (!document)
        return -ENOMEM;
    r = add_modules(crud, row, document, &sign_in);
    if (!r && sign_in)
        r = note_published(crud, text_of(row, "id"));
    if (!r)
        *ret_document = take(document);
    return r;
}

/* As https_edge_route_publish, of a row as it is stored. */
static int publish_stored(crud_t *crud, const json_t *row, json_t **ret_document)
{
    _cleanup_(json_clear_ref) json_t *opened = json_deep_copy(row);
    int r;

    if (!opened)
        return -ENOMEM;
    r = schema_unseal(kind_find("https_edge_route"), opened, crud->key);
    return r ? r : https_edge_route_publish(crud, opened, ret_document);
}

/* The form and a fingerprint of the key: with another key all is published anew. */
int sign_in_key_setup(const crud_t *crud, const config_t *config)
{
    const char *path = config_str(config, "sign-in-key");
    unsigned char print[32];
    int r = *path ? secret_key_load(&identity_key, path) : 0;

    if (r)
        return r;
    secret_derive(sign_in_key(crud), "sign-in modules", FORM, print);
    snprintf(published_form, sizeof(published_form), "%s-%02x%02x%02x%02x", FORM, print[0],
             print[1], print[2], print[3]);
    return 0;
}

/* Has it a module of which edges are told something sealed? */
#define SIGN_IN_SEALED_ANY                                                                         \
    "(oauth->'enabled' = 'true' OR jsonb_typeof(oidc) = 'object' OR jsonb_typeof(saml) = "         \
    "'object')"

int sign_in_publish_missing(crud_t *crud, int64_t *ret_revision)
{
    static const publish_pass_t passes[] = {
        {"SELECT 'https_edge_route', id, to_jsonb(t) FROM https_edge_route t "
         "WHERE " SIGN_IN_SEALED_ANY " AND sign_in_published IS DISTINCT FROM " PUBLISHED
         " ORDER BY id LIMIT $2::int FOR UPDATE",
         publish_stored, published_form},
    };
    int count, r;

    r = publish_missing(crud, "sign-in modules", passes, LEN(passes), &count, ret_revision);
    if (!r && count)
        log_info("told edges of %d routes with sign-in what they may know of it", count);
    return r;
}

/* Does the request make a key pair, which takes long? The body is searched for the word and not
 * decoded: a false match only waits in the queue of slow requests. */
bool https_edge_route_is_slow(const char *verb, const void *body, size_t len)
{
    static const char module[] = "saml";

    return (!strcmp(verb, "https_edge_route.create") || !strcmp(verb, "https_edge_route.update")
            || !strcmp(verb, "https_edge_route.replace_module"))
           && memmem(body, len, module, strlen(module));
}

KIND_RULES(https_edge_route, .check = https_edge_route_check, .publish = https_edge_route_publish);
