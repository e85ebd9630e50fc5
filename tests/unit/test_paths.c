#include "services/gateway/paths.h"

#include <criterion/criterion.h>
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
        cr_expect(is_same(target.operation ? target.verb : NULL, cases[i].verb), "%s %s: verb %s",
                  cases[i].method, cases[i].path, target.operation ? target.verb : "none");
        cr_expect_str_eq(target.allow, cases[i].allow, "%s %s: %s", cases[i].method, cases[i].path,
                         target.allow);
    }
}

Test(paths, what_is_too_long_for_its_place_is_nowhere)
{
    char path[400] = "/vaults/";
    target_t target;

    memset(path + strlen(path), 'a', 200);
    path_match("GET", path, &target);
    cr_assert_null(target.kind);
}
