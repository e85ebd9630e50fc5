/* postern-routes owns edges, routes, backends, domains, certificates and the config log.
 * Binds: RPC, config log. Publishes: audit events through its outbox.
 * Must never see an end user or a session. */
#include "common/resource/service.h"
#include "services/routes/ready_keys.h"
#include "services/routes/rules.h"

static const verb_t verbs[] = {
#define OWN_VERBS_routes OWN_VERBS
#include "common/resource/own_verbs.h"
    {NULL, NULL},
};

static const setting_t settings[] = {
    {"idp-url", SETTING_STR, "https://idp.localhost", 0, 0, "base URL of sign-in endpoints"},
    {"idp-certificate", SETTING_STR, "", 0, 0,
     "PEM file with the certificate of its host, read again with renew-seconds; empty: of the "
     "local "
     "authority"},
    {"idp-certificate-key", SETTING_STR, "", 0, 0, "PEM file with that certificate's key"},
    {"sign-in-key", SETTING_STR, "", 0, 0,
     "file of the key that sign-in modules are sealed with for postern-identity; empty: the master "
     "key"},
    {"ca-file", SETTING_STR, "", 0, 0, "where to write the local authority's certificate"},
    {"tcp-host", SETTING_STR, "localhost", 0, 0, "public host of reserved TCP addresses"},
    {"tcp-port-first", SETTING_INT, "20000", 1, 65535, "their lowest port"},
    {"tcp-port-last", SETTING_INT, "29999", 1, 65535, "their highest port"},
    {"api-host", SETTING_STR, "", 0, 0,
     "host name under which edges serve the API with TLS; nobody can reserve it; empty: none"},
    {"api-certificate", SETTING_STR, "", 0, 0,
     "PEM file with its certificate, read again with renew-seconds; empty: of the local authority"},
    {"api-certificate-key", SETTING_STR, "", 0, 0, "PEM file with that certificate's key"},
    {"own-sockets", SETTING_STR, "", 0, 0,
     "ports of this machine, and address:port of others, that are Postern's: no backend leads "
     "there"},
    {"denied-upstreams", SETTING_STR, "", 0, 0, "addresses, networks that no backend leads to"},
    {"allowed-upstreams", SETTING_STR, "", 0, 0, "those that one may lead to all the same"},
#define MANAGED(...) __VA_ARGS__
#define OWN_ONLY(...)
#define OAUTH_PROVIDER(name, app, ...)                                                             \
    app({"oauth-" #name "-client-id", SETTING_STR, "", 0, 0,                                       \
         "that postern-identity has for " #name "; empty: routes bring an application"}, )
#include "proto/oauth_providers.def"
#undef MANAGED
#undef OWN_ONLY
    {"renew-seconds", SETTING_INT, "86400", 1, 86400,
     "how often local certificates, and those of saml, are looked at"},
    {"saml-keys-ready", SETTING_INT, "8", 0, READY_KEYS_MAX,
     "RSA keys that are made before routes need them, in the background; a route with saml takes "
     "two"},
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

extern const service_part_t saml_renewal_part; /* saml_renewal.c */

static int routes_setup(crud_t *crud, const config_t *config)
{
    int64_t revision;
    int r = reserved_addr_setup(config);

    names_setup(config);
    oauth_applications_setup(config);
    if (!r)
        r = backend_setup(config);
    if (!r)
        r = ip_policy_publish_missing(crud, &revision);
    if (!r)
        r = failover_backend_publish_missing(crud, &revision);
    if (!r)
        r = sign_in_key_setup(crud, config);
    if (!r)
        r = sign_in_publish_missing(crud, &revision);
    if (!r)
        r = saml_renewal_pass(crud, &revision);
    return r ? r : local_authority_setup(crud, config);
}

extern const migration_t routes_migrations[]; /* made by the build */

int main(int argc, char **argv)
{
    const service_spec_t spec = {
        .id = SERVICE_routes,
        .migrations = routes_migrations,
        .verbs = verbs,
        .part = &saml_renewal_part,
        .is_slow = https_edge_route_is_slow,
        .setup = routes_setup,
        .settings = settings,
        .periodic = "reserved_domain.renew",
        .period = "renew-seconds",
    };

    return service_main(&spec, argc, argv);
}
