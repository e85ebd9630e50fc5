/* Tokens: a compact token as it came, claims that a provider has signed, and whole sign-ins of
 * which the bytes are what the token endpoint answers. No key has signed any of them. */
#include "services/identity/oidc_internal.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ISSUER "https://op.example.test"

static const char metadata[] =
    "{\"issuer\":\"" ISSUER "\",\"authorization_endpoint\":\"" ISSUER
    "/a\",\"token_endpoint\":\"" ISSUER "/t\",\"jwks_uri\":\"" ISSUER
    "/k\",\"userinfo_endpoint\":\"" ISSUER
    "/u\",\"response_types_supported\":[\"code\"],\"subject_types_supported\":[\"public\"],"
    "\"id_token_signing_alg_values_supported\":[\"ES256\"]}";
static const char key_set[] =
    "{\"keys\":[{\"kty\":\"OKP\",\"crv\":\"Ed25519\",\"kid\":\"k1\",\"x\":"
    "\"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo\"}]}";

static void read_token(const char *text)
{
    const oidc_expected_t expected = {.issuer = ISSUER,
                                      .client_id = "c",
                                      .nonce = "n",
                                      .access_token = "a",
                                      .max_age_s = 100,
                                      .now_s = 1000};
    json_t *audiences = json_pack("[s]", "c");
    oidc_logout_t logout;
    oidc_token_t token;
    int64_t expires_s;

    if (!oidc_token_read(&token, text, "logout+jwt")) {
        (void)oidc_token_fault(&token, &expected);
        oidc_token_done(&token);
    }
    if (!oidc_token_read(&token, text, "at+jwt")) {
        (void)oidc_bearer_fault(&token, ISSUER, audiences, 1000, &expires_s);
        oidc_token_done(&token);
    }
    json_decref(audiences);
    if (!oidc_logout_read(&logout, text, key_set, sizeof(key_set) - 1, ISSUER, "c", 1000))
        abort();
}

/* The claims are anything: what they make of a person must be text. */
static void read_claims(const char *text, size_t size)
{
    oidc_token_t token = {.algorithm = oidc_algorithm_find("ES256")};
    const oidc_expected_t expected = {.issuer = ISSUER, .client_id = "c", .max_age_s = -1};
    json_t *audiences = json_pack("[s]", "c");
    person_t person = {0};
    int64_t expires_s = 0;

    token.claims = oidc_json(text, size);
    if (token.claims) {
        (void)oidc_token_fault(&token, &expected);
        if (!oidc_bearer_fault(&token, ISSUER, audiences, 1000, &expires_s) && expires_s <= 1000)
            abort();
        oidc_person_set(&person, token.claims, token.claims, "groups");
        if (!json_is_array(person.groups))
            abort();
        person_done(&person);
    }
    oidc_token_done(&token);
    json_decref(audiences);
}

static void sign_in(const char *text, size_t size, int operation)
{
    json_t *config =
        json_pack("{s:s, s:s, s:s}", "issuer", ISSUER, "client_id", "c", "client_secret", "s");
    json_t *params = json_pack("{s:[s]}", "code", "x");
    const person_t known = {.id = (char *)"a", .provider_url = (char *)ISSUER};
    const provider_ask_t ask = {.config = config,
                                .redirect_uri = "https://h/",
                                .state = "s",
                                .nonce = "n",
                                .verifier = "v",
                                .refresh_token = "r",
                                .params = params,
                                .known = &known,
                                .now_s = 1000};
    provider_step_t step;
    fetch_t want = {0};
    void *flow = NULL;

    provider_oidc.start(&flow, operation, &ask);
    step = provider_oidc.next(flow, NULL, &want);
    while (step == PROVIDER_FETCH) {
        char last = want.url[strlen(want.url) - 1];
        fetched_t answer = {.status = 200, .body = text, .body_len = size};

        if (last == 'n') /* of openid-configuration */
            answer.body = metadata, answer.body_len = sizeof(metadata) - 1;
        else if (last == 'k')
            answer.body = key_set, answer.body_len = sizeof(key_set) - 1;
        step = provider_oidc.next(flow, &answer, &want);
    }
    if (step == PROVIDER_DONE && operation == PROVIDER_CALLBACK)
        abort();
    provider_oidc.free(&flow);
    json_decref(config);
    json_decref(params);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);

    memcpy(text, data, size);
    text[size] = '\0';
    read_token(text);
    read_claims(text, size);
    sign_in(text, size, PROVIDER_CALLBACK);
    sign_in(text, size, PROVIDER_REFRESH);
    free(text);
    return 0;
}
