/* postern-routes owns edges, routes, backends, domains, certificates and the config log.
 * Binds: RPC, config log. Publishes: audit events through its outbox.
 * Must never see an end user or a session. */
#include "common/service.h"
#include "services/routes/rules.h"

EMBED(common_schema_sql, "common/schema.sql");
EMBED(config_log_sql, "common/config_log.sql");
EMBED(routes_0001_sql, "services/routes/migrations/0001_routes.sql");

static const kind_rules_t rules[] = {
    {"https_edge", https_edge_check, NULL, https_edge_publish},
    {"https_edge_route", https_edge_route_check, NULL, https_edge_route_publish},
    {"static_backend", NULL, NULL, static_backend_publish},
    {"http_response_backend", http_response_backend_check, NULL, http_response_backend_publish},
    {"reserved_domain", reserved_domain_check, NULL, reserved_domain_publish},
    {"tls_certificate", tls_certificate_check, NULL, tls_certificate_publish},
    {NULL, NULL, NULL, NULL},
};

int main(int argc, char **argv)
{
    const char *const migrations[] = {common_schema_sql, config_log_sql, routes_0001_sql, NULL};
    const service_spec_t spec = {
        .name = "routes",
        .about = "postern-routes: edges, routes, backends, domains, certificates; the config log",
        .migrations = migrations,
        .rules = rules,
        .config_log = true,
        .setup = local_authority_setup,
    };

    return service_main(&spec, argc, argv);
}
