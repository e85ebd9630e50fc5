/* The operator's applications at identity providers, for routes whose oauth brings none. Secrets of
 * these are known to postern-identity alone; here it matters only which there are. */
#include "common/base/cleanup.h"
#include "services/routes/rules.h"

#include <stdio.h>
#include <string.h>

static struct application {
    const char *provider;
    bool may_be, is_there;
} applications[] = {
#define MANAGED                        true
#define OWN_ONLY                       false
#define OAUTH_PROVIDER(name, app, ...) {#name, app, false},
#include "proto/oauth_providers.def"
#undef MANAGED
#undef OWN_ONLY
};

void oauth_applications_setup(const config_t *config)
{
    for (size_t i = 0; i < LEN(applications); i++) {
        char setting[64];

        snprintf(setting, sizeof(setting), "oauth-%s-client-id", applications[i].provider);
        applications[i].is_there = applications[i].may_be && *config_str(config, setting);
    }
}

const char *oauth_application_refusal(const char *provider)
{
    static __thread char why[160];

    for (size_t i = 0; i < LEN(applications); i++) {
        if (strcmp(applications[i].provider, provider) != 0)
            continue;
        if (applications[i].is_there)
            return NULL;
        if (applications[i].may_be) {
            snprintf(why, sizeof(why),
                     "needs client_id and client_secret: this server has no application at the "
                     "provider (setting oauth-%s-client-id)",
                     provider);
            return why;
        }
    }
    return "needs client_id and client_secret";
}
