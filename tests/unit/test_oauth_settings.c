/* Settings of OAuth providers: where they are, and the operator's applications there. */
#include "common/base/cleanup.h"
#include "services/identity/oauth_internal.h"
#include "services/routes/rules.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

static const setting_t settings[] = {
#define OAUTH_PROVIDER(name, app, ...) OAUTH_SETTINGS(name, app)
#include "proto/oauth_providers.def"
    {NULL, SETTING_STR, NULL, 0, 0, NULL},
};

static config_t config; /* oauth_row_find's places do not point into it */

/* Two settings; "" for none. */
static int set_up(const char *one, const char *other)
{
    char *argv[] = {"test", (char *)(*one ? one : other), (char *)other, NULL};
    int r;

    config_done(&config);
    cr_assert_eq(config_parse(&config, settings, "", 1 + (*one != '\0') + (*other != '\0'), argv),
                 0);
    r = oauth_setup(&config);
    oauth_applications_setup(&config);
    return r;
}

static const struct place_case {
    const char *provider, *setting, *sign_in, *api, *token_base;
} places[] = {
    {"github", "", "https://github.com", "https://api.github.com", "https://github.com"},
    {"google", "", "https://accounts.google.com", "https://openidconnect.googleapis.com",
     "https://oauth2.googleapis.com"},
    {"amazon", "", "https://www.amazon.com", "https://api.amazon.com", "https://api.amazon.com"},
    /* GitHub Enterprise Server and Cloud, self-managed GitLab: one URL, or two */
    {"github", "--oauth-github-url=https://ghe.test/", "https://ghe.test",
     "https://ghe.test/api/v3", "https://ghe.test"},
    {"github", "--oauth-github-url=https://o.ghe.com https://api.o.ghe.com", "https://o.ghe.com",
     "https://api.o.ghe.com", "https://o.ghe.com"},
    {"gitlab", "--oauth-gitlab-url=https://git.test:8443/lab/", "https://git.test:8443/lab",
     "https://git.test:8443/lab", "https://git.test:8443/lab"},
    /* a tenant, a national cloud, a region, another version */
    {"microsoft", "--oauth-microsoft-url=https://login.microsoftonline.com/contoso.test",
     "https://login.microsoftonline.com/contoso.test", "https://graph.microsoft.com",
     "https://login.microsoftonline.com/contoso.test"},
    {"microsoft",
     "--oauth-microsoft-url=https://login.microsoftonline.us/common https://graph.microsoft.us",
     "https://login.microsoftonline.us/common", "https://graph.microsoft.us",
     "https://login.microsoftonline.us/common"},
    {"amazon", "--oauth-amazon-url=https://eu.account.amazon.com https://api.amazon.co.uk",
     "https://eu.account.amazon.com", "https://api.amazon.co.uk", "https://api.amazon.co.uk"},
    {"facebook",
     "--oauth-facebook-url=https://www.facebook.com/v27.0 https://graph.facebook.com/v27.0",
     "https://www.facebook.com/v27.0", "https://graph.facebook.com/v27.0",
     "https://graph.facebook.com/v27.0"},
    {"google", "--oauth-google-url=https://a.test  https://b.test https://c.test/x",
     "https://a.test", "https://b.test", "https://c.test/x"},
};

Test(oauth_settings, put_providers_where_the_operator_has_them)
{
    for (size_t i = 0; i < LEN(places); i++) {
        oauth_place_t place;

        cr_assert_eq(set_up(places[i].setting, ""), 0, "%s", places[i].setting);
        cr_assert_not_null(oauth_row_find(places[i].provider, &place));
        cr_assert_str_eq(place.sign_in, places[i].sign_in);
        cr_assert_str_eq(place.api, places[i].api);
        cr_assert_str_eq(place.token_base, places[i].token_base);
    }
    oauth_done();
    config_done(&config);
}

static const char *const bad_urls[] = {
    "http://ghe.test",
    "ghe.test",
    "https://",
    "https:///x",
    "https://:443",
    "https://u@h.test",
    "https://h.test?x",
    "https://h.test#x",
    "https://h.test https://\\",
    "ftp://h.test",
    "https://h.test https://h.test http://h.test",
    "https://a.test https://a.test https://a.test https://a.test",
};

Test(oauth_settings, refuse_urls_behind_which_a_path_would_lead_elsewhere)
{
    for (size_t i = 0; i < LEN(bad_urls); i++) {
        char setting[256];

        snprintf(setting, sizeof(setting), "--oauth-github-url=%s", bad_urls[i]);
        cr_assert_lt(set_up(setting, ""), 0, "%s", bad_urls[i]);
    }
    oauth_done();
    config_done(&config);
}

static void write_file(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");

    cr_assert_not_null(file);
    fputs(text, file);
    fclose(file);
}

Test(oauth_settings, read_a_secret_or_the_file_that_holds_it)
{
    char path[] = "/tmp/postern-secret-XXXXXX", setting[128];
    oauth_place_t place;

    close(mkstemp(path));
    snprintf(setting, sizeof(setting), "--oauth-twitch-client-secret=@%s", path);
    write_file(path, "s e=cr&t\nrest\n");
    cr_assert_eq(set_up("--oauth-twitch-client-id=app", setting), 0);
    oauth_row_find("twitch", &place);
    cr_assert_str_eq(place.client_id, "app");
    cr_assert_str_eq(place.client_secret, "s e=cr&t");
    write_file(path, "\n");
    cr_assert_lt(set_up("--oauth-twitch-client-id=app", setting), 0, "an empty file");
    unlink(path);
    cr_assert_lt(set_up("--oauth-twitch-client-id=app", setting), 0, "no file");
    cr_assert_eq(set_up("--oauth-twitch-client-id=app", "--oauth-twitch-client-secret=plain"), 0);
    oauth_row_find("twitch", &place);
    cr_assert_str_eq(place.client_secret, "plain");
    cr_assert_lt(set_up("--oauth-twitch-client-id=app", ""), 0, "an id alone");
    cr_assert_lt(set_up("", "--oauth-twitch-client-secret=x"), 0, "a secret alone");
    oauth_done();
    config_done(&config);
}

Test(oauth_settings, let_routes_use_the_operators_application_where_there_is_one)
{
    set_up("--oauth-gitlab-client-id=app", "--oauth-gitlab-client-secret=x");
    cr_assert_null(oauth_application_refusal("gitlab"));
    cr_assert(strstr(oauth_application_refusal("github"), "setting oauth-github-client-id"));
    cr_assert_str_eq(oauth_application_refusal("amazon"), "needs client_id and client_secret");
    cr_assert_str_eq(oauth_application_refusal("facebook"), "needs client_id and client_secret");
    oauth_done();
    config_done(&config);
}

/* The route brings no application; what it brings of scopes is not asked for. */
Test(oauth_settings, sign_users_in_with_the_operators_application_and_the_tables_scopes)
{
    _cleanup_(json_clear_ref) json_t *document =
        json_loads("{\"provider\": {\"gitlab\": {\"client_id\": null, \"client_secret\": null, "
                   "\"scopes\": [\"api\"]}}}",
                   0, NULL);
    const provider_ask_t ask = {.config = document,
                                .module = "oauth",
                                .redirect_uri = "https://idp.test/oauth2/callback",
                                .state = "s",
                                .verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"};
    fetch_t fetch;
    void *flow;

    set_up("--oauth-gitlab-client-id=operators", "--oauth-gitlab-client-secret=x");
    cr_assert_eq(provider_oauth.start(&flow, PROVIDER_BEGIN, &ask), 0);
    cr_assert_eq(provider_oauth.next(flow, NULL, &fetch), PROVIDER_DONE);
    cr_assert(strstr(provider_oauth.location(flow), "client_id=operators&"));
    cr_assert(strstr(provider_oauth.location(flow), "scope=openid%20profile%20email&"));
    provider_oauth.free(&flow);
    set_up("", "");
    cr_assert_eq(provider_oauth.start(&flow, PROVIDER_BEGIN, &ask), 0);
    cr_assert_eq(provider_oauth.next(flow, NULL, &fetch), PROVIDER_INVALID);
    cr_assert(strstr(provider_oauth.why(flow), "oauth-gitlab-client-id"));
    provider_oauth.free(&flow);
    config_done(&config);
}
