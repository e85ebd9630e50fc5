/* Rules of event destinations beyond their table. */
#include "common/base/quote.h"
#include "common/resource/kind_rules.h"

#include <string.h>

/* The kind of the target, if there is exactly one; else NULL. */
static const char *only_target(const json_t *target)
{
    const char *name, *only = NULL;
    json_t *value;

    json_object_foreach((json_t *)target, name, value)
    {
        if (json_is_null(value))
            continue;
        if (only)
            return NULL;
        only = name;
    }
    return only;
}

static bool is_set(const json_t *object, const char *key)
{
    return json_string_length(json_object_get(object, key)) > 0;
}

/* Require a secret: where the update leaves it empty, the stored one is kept. The last part of path
 * is the secret's name. */
static int need_secret(json_t *owner, const json_t *old, const char *key, const char *path,
                       problem_t *problem)
{
    if (!is_set(owner, key) && is_set(old, key))
        json_object_set(owner, key, json_object_get(old, key));
    return is_set(owner, key) ? 0 : problem_add(problem, ERR_EVENT_TARGET, path, "is required");
}

static int check_aws(json_t *target, const json_t *old, const char *kind, problem_t *problem)
{
    json_t *auth = json_object_get(target, "auth"), *creds = json_object_get(auth, "creds");
    char path[80], secret[120];

    snprintf(path, sizeof(path), "target.%s.auth", kind);
    snprintf(secret, sizeof(secret), "%s.creds.aws_secret_access_key", path);
    if (json_is_object(creds) == json_is_object(json_object_get(auth, "role")))
        return problem_add(problem, ERR_EVENT_TARGET, path, "needs exactly one of role and creds");
    if (!json_is_object(creds))
        return 0;
    return need_secret(creds, json_object_get(json_object_get(old, "auth"), "creds"),
                       "aws_secret_access_key", secret, problem);
}

/* A destination has exactly one target, with complete authentication, and its kind never changes.
 * Reads return secrets as empty strings, so an update that leaves one empty keeps it. */
static int event_destination_check(crud_t *crud, json_t *document, const json_t *old,
                                   json_t *references, problem_t *problem)
{
    json_t *targets = json_object_get(document, "target"), *target;
    const json_t *old_targets = json_object_get(old, "target");
    const char *kind = only_target(targets), *old_kind = only_target(old_targets);

    (void)crud;
    (void)references;
    if (!kind)
        return problem_add(problem, ERR_EVENT_TARGET, "target", "must have exactly one member");
    if (old_kind && strcmp(kind, old_kind))
        return problem_add(problem, ERR_EVENT_TARGET_KIND, "target", "is %s %s and stays one",
                           quote_article(old_kind), old_kind);
    target = json_object_get(targets, kind);
    if (!strcmp(kind, "datadog"))
        return need_secret(target, json_object_get(old_targets, kind), "api_key",
                           "target.datadog.api_key", problem);
    if (!strcmp(kind, "azure_logs_ingestion"))
        return need_secret(target, json_object_get(old_targets, kind), "client_secret",
                           "target.azure_logs_ingestion.client_secret", problem);
    return check_aws(target, json_object_get(old_targets, kind), kind, problem);
}

KIND_RULES(event_destination, .check = event_destination_check);
