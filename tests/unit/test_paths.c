#include "services/gateway/paths.h"

#include <criterion/criterion.h>
#include <ctype.h>
#include <string.h>

/* Every operation at its path, each method at every place, as GET /openapi.json lists them. */
static const struct {
    const char *method, *path, *kind, *verb, *allow;
} cases[] = {
    {"POST", "/vaults", "vault", "create", "POST, GET"},
    {"GET", "/vaults", "vault", "list", "POST, GET"},
    {"PUT", "/vaults", "vault", NULL, "POST, GET"},
    {"GET", "/vaults/x", "vault", "get", "GET, PATCH, DELETE"},
    {"PATCH", "/vaults/x", "vault", "update", "GET, PATCH, DELETE"},
    {"DELETE", "/vaults/x", "vault", "delete", "GET, PATCH, DELETE"},
    {"POST", "/vaults/x", "vault", NULL, "GET, PATCH, DELETE"},
    {"GET", "/vaults/x/secrets", "secret", "list", "GET"},
    {"POST", "/vaults/x/secrets", "secret", NULL, "GET"},
    {"POST", "/app/users", "application_user", NULL, "GET"},
    {"DELETE", "/app/users/x", "application_user", "delete", "GET, DELETE"},
    {"GET", "/edges/https/e/routes", "https_edge_route", NULL, "POST"},
    {"POST", "/edges/https/e/routes", "https_edge_route", "create", "POST"},
    {"PATCH", "/edges/https/e/routes/x", "https_edge_route", "update", "GET, PATCH, DELETE"},
    {"PUT", "/edges/https/e/routes/x/saml", "https_edge_route", "replace_module",
     "PUT, GET, DELETE"},
    {"GET", "/edges/https/e/mutual_tls", "https_edge", "get_module", "PUT, GET, DELETE"},
    {"DELETE", "/edges/https/e/mutual_tls", "https_edge", "delete_module", "PUT, GET, DELETE"},
    {"PATCH", "/edges/https/e/mutual_tls", "https_edge", NULL, "PUT, GET, DELETE"},
    {"DELETE", "/reserved_domains/x/certificate", "reserved_domain", "delete_module", "DELETE"},
    {"GET", "/reserved_domains/x/certificate", "reserved_domain", NULL, "DELETE"},
    {"POST", "/tunnel_sessions/x/stop", "tunnel_session", "command", "POST"},
    {"GET", "/tunnel_sessions/x/stop", "tunnel_session", NULL, "POST"},
    {"POST", "/event_subscriptions/x/sources", "event_subscription", "create_member", "POST, GET"},
    {"GET", "/event_subscriptions/x/sources", "event_subscription", "list_members", "POST, GET"},
    {"GET", "/event_subscriptions/x/sources/y", "event_subscription", "get_member",
     "GET, PATCH, DELETE"},
    {"PATCH", "/event_subscriptions/x/sources/y", "event_subscription", "update_member",
     "GET, PATCH, DELETE"},
    {"DELETE", "/event_subscriptions/x/sources/y", "event_subscription", "delete_member",
     "GET, PATCH, DELETE"},
    {"GET", "/nothing", NULL, NULL, ""},
    {"GET", "/vaults/", NULL, NULL, ""},
    {"GET", "/vaults/x/", NULL, NULL, ""},
    {"GET", "/vaults/x/nothing", NULL, NULL, ""},
    {"GET", "/event_subscriptions/x/sources/y/z", NULL, NULL, ""},
    {"GET", "/edges/https//routes", NULL, NULL, ""},
};

static bool is_same(const char *one, const char *other)
{
    return one && other ? !strcmp(one, other) : one == other;
}

Test(paths, each_method_at_each_place_is_its_operation_or_says_what_is_allowed)
{
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        target_t target;

        path_match(cases[i].method, cases[i].path, &target);
        cr_expect(is_same(target.kind ? target.kind->name : NULL, cases[i].kind), "%s %s: kind %s",
                  cases[i].method, cases[i].path, target.kind ? target.kind->name : "none");
        if (!cases[i].kind)
            continue;
        cr_expect(is_same(target.operation ? target.operation->name : NULL, cases[i].verb),
                  "%s %s: verb %s", cases[i].method, cases[i].path,
                  target.operation ? target.operation->name : "none");
        cr_expect_str_eq(target.allow, cases[i].allow, "%s %s: %s", cases[i].method, cases[i].path,
                         target.allow);
    }
}

/* "/a/{id}/b" with something in each place of a name. */
static void fill_pattern(const char *pattern, char *out)
{
    while (*pattern) {
        if (*pattern == '{') {
            *out++ = 'x';
            pattern += strcspn(pattern, "}") + 1;
        } else {
            *out++ = *pattern++;
        }
    }
    *out = '\0';
}

/* Does the path have the method, and does the method have what OpenAPI says of it? */
static void check_described(const char *pattern, const char *method, const json_t *described)
{
    char path[200], upper[16] = "", status[16];
    target_t target;

    fill_pattern(pattern, path);
    for (size_t i = 0; method[i]; i++)
        upper[i] = (char)toupper((unsigned char)method[i]);
    path_match(upper, path, &target);
    cr_assert(target.kind && target.operation, "%s %s", upper, path);
    cr_expect_str_eq(json_string_value(json_array_get(json_object_get(described, "tags"), 0)),
                     target.kind->name);
    snprintf(status, sizeof(status), "%d", target.operation->status);
    cr_expect(json_object_get(json_object_get(described, "responses"), status), "%s %s: %s", upper,
              path, status);
    cr_expect_eq(json_object_get(described, "requestBody") != NULL,
                 (target.operation->body & (BODY_WHOLE | BODY_PATCH)) != 0, "%s %s", upper, path);
    cr_expect(strstr(target.allow, upper), "%s %s: %s", upper, path, target.allow);
}

Test(paths, all_that_openapi_describes_is_there_and_nothing_else_is)
{
    json_t *document = schema_openapi("http://x"), *item, *described;
    const char *pattern, *method;
    size_t found = 0, counted = 0;

    json_object_foreach(json_object_get(document, "paths"), pattern, item)
    {
        if (!strcmp(pattern, "/self"))
            continue;
        json_object_foreach(item, method, described)
        {
            check_described(pattern, method, described);
            found++;
        }
    }
    for (const kind_t *kind = kind_all(); kind->name; kind++)
        for (const operation_t *row = operation_all(); row->name; row++) {
            bool has = kind->operations & row->needs;

            counted += has && row->places & (PLACE_COLLECTION | PLACE_OBJECT);
            for (const field_t *field = kind->type.fields; has && field->name; field++) {
                counted += field->flags & FIELD_MODULE && row->places & PLACE_MODULE;
                counted += field->flags & FIELD_DETACH && row->places & PLACE_DETACHABLE;
                counted +=
                    field->flags & FIELD_LISTED && row->places & (PLACE_MEMBERS | PLACE_MEMBER);
            }
        }
    for (const kind_list_t *row = kind_lists(); row->kind; row++)
        counted++;
    for (const kind_command_t *row = kind_commands(); row->kind; row++)
        counted++;
    cr_assert_eq(found, counted, "%zu described, %zu in the tables", found, counted);
    json_decref(document);
}

Test(paths, what_is_too_long_for_its_place_is_nowhere)
{
    char path[400] = "/vaults/";
    target_t target;

    memset(path + strlen(path), 'a', 200);
    path_match("GET", path, &target);
    cr_assert_null(target.kind);
}
