/* The engine of the module oauth: OAuth 2.0 (RFC 6749, RFC 7636) as each provider of
 * proto/oauth_providers.def speaks it. provider_oauth (provider.h) is the engine itself; this is
 * what the program's start gives it. */
#pragma once

#include "common/base/config.h"
#include "services/identity/provider.h"

/* Settings of the rows, for the program's table of settings. */
#define OAUTH_MANAGED_SETTINGS(...)  __VA_ARGS__
#define OAUTH_OWN_ONLY_SETTINGS(...) /* no application of the operator's */
#define OAUTH_SETTINGS(name, app)                                                                  \
    {"oauth-" #name "-url",                                                                        \
     SETTING_STR,                                                                                  \
     "",                                                                                           \
     0,                                                                                            \
     0,                                                                                            \
     "where " #name " is, if not at its public address: base URLs of sign-in, API, token"},        \
        OAUTH_##app##_SETTINGS({"oauth-" #name "-client-id", SETTING_STR, "", 0, 0,                \
                                "application at " #name                                            \
                                " for routes that bring none; empty: they are refused"},           \
                               {"oauth-" #name "-client-secret", SETTING_STR, "", 0, 0,            \
                                "its secret, or @/path of a file that holds it"}, )

/* Read the settings and the files that they name; once, before the first flow. 0 | fault, and what
 * is wrong is logged: a URL that is none of https, an id without its secret, a file that cannot be
 * read. */
int oauth_setup(const config_t *config);

/* Wipe and forget what oauth_setup read. */
void oauth_done(void);
