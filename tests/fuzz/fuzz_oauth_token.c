/* What a provider of OAuth answers to a token request: whatever it is, the next request is one line
 * each of printable headers, to the same provider, or the flow has ended and says why. */
#include "services/identity/oauth_internal.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[] = {"github",   "facebook", "microsoft", "google",
                                    "linkedin", "gitlab",   "twitch",    "amazon"};

static void check_request(const fetch_t *fetch)
{
    if (strncmp(fetch->url, "https://", 8) != 0)
        abort();
    for (size_t i = 0; fetch->headers[i]; i++)
        for (const char *c = fetch->headers[i]; *c; c++)
            if (*c < 0x20 || *c > 0x7e)
                abort();
}

static void *begin(const char *name, int operation)
{
    json_t *config =
        json_pack("{s:i, s:{s:{s:s, s:s, s:[s]}}}", "auth_check_interval", 60, "provider", name,
                  "client_id", "id", "client_secret", "secret", "scopes", "repo:status");
    json_t *params = json_pack("{s:[s]}", "code", "code");
    oauth_place_t place;
    person_t known = {.id = "1", .provider_name = (char *)name};
    provider_ask_t ask = {.config = config,
                          .module = "oauth",
                          .redirect_uri = "https://idp.test/oauth2/callback",
                          .state = "s",
                          .verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk",
                          .refresh_token = "refresh",
                          .known = &known,
                          .params = params};
    void *flow;

    oauth_row_find(name, &place);
    known.provider_url = (char *)place.sign_in;
    provider_oauth.start(&flow, operation, &ask);
    json_decref(config);
    json_decref(params);
    return flow;
}

/* The first byte says which provider, and what is asked for; the second status and form. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned statuses[] = {200, 400, 401, 403, 500, 200, 200, 200};
    fetch_t fetch;
    fetched_t answer = {0};
    provider_step_t step;
    void *flow;
    char *body;

    if (size < 2)
        return 0;
    flow = begin(names[data[0] & 7], data[0] & 8 ? PROVIDER_REFRESH : PROVIDER_CALLBACK);
    if (provider_oauth.next(flow, NULL, &fetch) != PROVIDER_FETCH)
        abort();
    check_request(&fetch);
    body = malloc(size - 1);
    memcpy(body, data + 2, size - 2);
    body[size - 2] = '\0';
    answer.status = statuses[data[1] & 7];
    answer.body = body;
    answer.body_len = size - 2;
    answer.content_type = data[1] & 8 ? "application/x-www-form-urlencoded" : "application/json";
    step = provider_oauth.next(flow, &answer, &fetch);
    if (step == PROVIDER_FETCH)
        check_request(&fetch);
    else if (step == PROVIDER_DONE || !*provider_oauth.why(flow))
        abort();
    free(body);
    provider_oauth.free(&flow);
    return 0;
}
