/* What a provider of OAuth says of a user: records, addresses, pages of teams with their Link, and the
 * rules that judge it. Whoever a domain's rule admits has an address of exactly that domain. */
#include "services/identity/oauth_internal.h"
#include "services/identity/rules.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"github",   "facebook", "microsoft", "google",
                                    "linkedin", "gitlab",   "twitch",    "amazon"};

static void *begin(const json_t *config, const char *name)
{
    oauth_place_t place;
    person_t known = {.id = "1", .provider_name = (char *)name};
    provider_ask_t ask = {
        .config = config, .module = "oauth", .access_token = "token", .known = &known};
    void *flow;

    oauth_row_find(name, &place);
    known.provider_url = (char *)place.sign_in;
    provider_oauth.start(&flow, PROVIDER_REFRESH, &ask);
    return flow;
}

static void judge(const json_t *config, oauth_flow_t *flow, const char *name)
{
    static const char at_domain[] = "@good.test";
    person_t who = {.provider_name = (char *)name,
                    .id = flow->id,
                    .email = flow->email,
                    .email_verified = flow->email_verified,
                    .groups = flow->groups};
    const char *text = flow->email ? flow->email : "";
    size_t len = strlen(text);
    char why[256];

    if (!flow->id || strcmp(flow->id, "1") != 0)
        abort();
    if (sign_in_admits("oauth", config, &who, why, sizeof(why))) {
        if (!json_array_size(flow->groups)
            && (!flow->email_verified || len <= strlen(at_domain)
                || strcasecmp(text + len - strlen(at_domain), at_domain) != 0
                || (strchr(text, '@') != strrchr(text, '@') && *text != '"')))
            abort();
    } else if (!*why) {
        abort();
    }
}

/* The first byte says which provider; then come answers, ended by NULs, of which every other is the
 * Link of the one before. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const char *name = names[size ? data[0] & 7 : 0];
    char *copy = malloc(size + 1), *at = copy, *end = copy + (size ? size - 1 : 0);
    json_t *config = json_pack("{s:{s:{s:s, s:s, s:[s], s:[s, s], s:[s]}}}", "provider", name,
                               "client_id", "id", "client_secret", "secret", "email_domains",
                               "good.test", "teams", "acme/ops", "7", "organizations", "acme");
    void *flow = begin(config, name);
    provider_step_t step;
    fetch_t fetch;

    if (size)
        memcpy(copy, data + 1, size - 1);
    *end = '\0';
    for (step = provider_oauth.next(flow, NULL, &fetch); step == PROVIDER_FETCH;) {
        fetched_t answer = {.status = at < end ? 200 : 500, .body = at, .body_len = strlen(at)};

        if (strncmp(fetch.url, ((oauth_flow_t *)flow)->place.api,
                    strlen(((oauth_flow_t *)flow)->place.api))
            != 0)
            abort();
        at += answer.body_len + (at + answer.body_len < end);
        answer.link = *at ? at : NULL;
        at += strlen(at) + (at + strlen(at) < end);
        step = provider_oauth.next(flow, &answer, &fetch);
    }
    if (step == PROVIDER_DONE)
        judge(config, flow, name);
    else if (!*provider_oauth.why(flow))
        abort();
    provider_oauth.free(&flow);
    json_decref(config);
    free(copy);
    return 0;
}
