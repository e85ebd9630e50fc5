/* JWTs that requests bring to a route with OpenID Connect: what lets a program in, and all that
 * must not. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"
#include "tests/unit/oidc_op.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <openssl/hmac.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <string.h>

#define AUDIENCE "https://api.example.test"

/* A provider, its route, and an access token's claims, which a test changes. */
static op_t *a_provider(const char *alg)
{
    op_t *op = op_new(alg);

    op_set(op->config, "bearer_audiences", json_pack("[ss]", "another", AUDIENCE));
    op_set(op->header, "typ", json_string("at+jwt"));
    json_decref(op->claims);
    op->claims = json_pack("{s:s, s:s, s:s, s:s, s:I, s:I, s:s}", "iss", OP_ISSUER, "aud", AUDIENCE,
                           "sub", "robot", "client_id", "robot", "exp", (json_int_t)OP_NOW_S + 300,
                           "iat", (json_int_t)OP_NOW_S, "jti", "j1");
    return op;
}

#define A_PROVIDER _cleanup_(op_destroy) op_t *op = a_provider("ES256")

/* Takes the token. */
static provider_step_t bring_text(op_t *op, char *token, person_t *who)
{
    json_decref(op->params);
    op->params = json_pack("{s:[s]}", "bearer_token", token);
    free(token);
    return op_run(op, PROVIDER_BEARER, who);
}

static provider_step_t bring(op_t *op, person_t *who)
{
    return bring_text(op, op_sign(op->key, op->alg, op->header, op->claims), who);
}

static void admits(op_t *op)
{
    cr_assert_eq(bring(op, NULL), PROVIDER_DONE, "%s", op->why);
}

static void says(const op_t *op, provider_step_t step, const char *why)
{
    cr_assert_eq(step, PROVIDER_DENIED, "step %d: %s", step, op->why);
    cr_assert(strstr(op->why, "the bearer token is not valid: "), "%s", op->why);
    cr_assert(strstr(op->why, why), "'%s' is not in: %s", why, op->why);
}

static void denies(op_t *op, const char *why)
{
    says(op, bring(op, NULL), why);
}

/* The claim with this value must deny; then it is as it was. Takes value; NULL: it is missing. */
static void denies_claim(op_t *op, const char *name, json_t *value, const char *why)
{
    json_t *before = json_deep_copy(op->claims);

    op_set(op->claims, name, value);
    denies(op, why);
    json_decref(op->claims);
    op->claims = before;
}

Test(oidc_bearer, says_who_has_the_token_and_until_when)
{
    A_PROVIDER;
    person_t who = {0};

    op_set(op->claims, "groups", json_pack("[s]", "robots"));
    cr_assert_eq(bring(op, &who), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(who.id, "robot");
    cr_assert_str_eq(who.name, "robot", "its client_id, where it has no name");
    cr_assert_str_eq(who.provider_url, OP_ISSUER);
    cr_assert_eq(who.session_until_s, OP_NOW_S + 300);
    cr_assert_eq(json_array_size(who.groups), 1);
    cr_assert_eq(op->calls[OP_TOKENS] + op->calls[OP_USERINFO], 0);
    person_done(&who);
    op_set(op->claims, "name", json_string("Robbie"));
    op_set(op->claims, "aud", json_pack("[ss]", "of.others", AUDIENCE));
    cr_assert_eq(bring(op, &who), PROVIDER_DONE, "%s", op->why);
    cr_assert_str_eq(who.name, "Robbie");
    cr_assert_eq(op->calls[OP_KEYS], 1, "keys are fetched once");
    person_done(&who);
}

Test(oidc_bearer, takes_the_types_of_access_tokens_and_no_others)
{
    static const char *const good[] = {"at+jwt", "AT+JWT", "application/at+jwt",
                                       "JWT",    "jwt",    "application/jwt"};
    static const char *const bad[] = {
        "logout+jwt", "secevent+jwt", "dpop+jwt", "at+jwtx", "", "application/application/at+jwt"};
    A_PROVIDER;

    for (size_t i = 0; i < LEN(good); i++) {
        op_set(op->header, "typ", json_string(good[i]));
        admits(op);
    }
    op_set(op->header, "typ", NULL);
    admits(op);
    for (size_t i = 0; i < LEN(bad); i++) {
        op_set(op->header, "typ", json_string(bad[i]));
        denies(op, "its typ is another token's");
    }
    op_set(op->header, "typ", json_integer(1));
    denies(op, "its typ is another token's");
}

/* ---- signatures ---- */

Test(oidc_bearer, denies_alg_none)
{
    A_PROVIDER;
    char *token;

    op_set(op->header, "alg", json_string("none"));
    denies(op, "alg");
    token = op_sign(op->key, op->alg, op->header, op->claims);
    strrchr(token, '.')[1] = '\0';
    says(op, bring_text(op, token, NULL), "");
}

Test(oidc_bearer, denies_hs256_with_the_public_key)
{
    _cleanup_(op_destroy) op_t *op = a_provider("RS256");
    unsigned char mac[EVP_MAX_MD_SIZE], *der = NULL;
    int der_len = i2d_PUBKEY(op->key, &der);
    char *text, *token, encoded[100];
    unsigned int len;

    op_set(op->header, "alg", json_string("HS256"));
    text = op_sign(op->key, "RS256", op->header, op->claims);
    *strrchr(text, '.') = '\0';
    HMAC(EVP_sha256(), der, der_len, (const unsigned char *)text, strlen(text), mac, &len);
    sodium_bin2base64(encoded, sizeof(encoded), mac, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    cr_assert_neq(asprintf(&token, "%s.%s", text, encoded), -1);
    says(op, bring_text(op, token, NULL), "alg");
    OPENSSL_free(der);
    free(text);
}

Test(oidc_bearer, denies_another_key_whatever_the_header_brings_along)
{
    A_PROVIDER;
    EVP_PKEY *other = op_key("ES256");

    op_set(op->header, "jwk", op_jwk(other, "ES256", "k1"));
    op_set(op->header, "jku", json_string("https://evil.example.test/keys"));
    op_set(op->header, "x5u", json_string("https://evil.example.test/chain"));
    says(op, bring_text(op, op_sign(other, op->alg, op->header, op->claims), NULL), "signature");
    cr_assert_eq(op->calls[OP_KEYS], 1);
    EVP_PKEY_free(other);
}

Test(oidc_bearer, denies_a_kid_that_is_no_key_s)
{
    A_PROVIDER;
    static const char *const kids[] = {"../../dev/null", "k2", "' OR 1=1", "https://evil.test/k1",
                                       "k3"};

    admits(op);
    for (size_t i = 0; i < LEN(kids); i++) {
        op_set(op->header, "kid", json_string(kids[i]));
        if (i < PROVIDER_CACHE_SPARE)
            denies(op, "no key for its kid and alg");
        else
            cr_assert_eq(bring(op, NULL), PROVIDER_UNAVAILABLE, "nobody can tell: %s", op->why);
    }
    op_set(op->header, "kid", json_array());
    denies(op, "kid");
    cr_assert_eq(op->calls[OP_KEYS], 1 + PROVIDER_CACHE_SPARE,
                 "whoever makes up kids has keys fetched a few times");
}

Test(oidc_bearer, denies_critical_extensions)
{
    A_PROVIDER;

    op_set(op->header, "crit", json_pack("[s]", "b64"));
    op_set(op->header, "b64", json_false());
    denies(op, "crit");
}

/* ---- claims ---- */

Test(oidc_bearer, denies_another_issuer)
{
    A_PROVIDER;

    denies_claim(op, "iss", NULL, "its iss");
    denies_claim(op, "iss", json_string(OP_ISSUER "/"), "its iss");
    denies_claim(op, "iss", json_string("https://evil.example.test"), "its iss");
    denies_claim(op, "iss", json_pack("[s]", OP_ISSUER), "its iss");
}

Test(oidc_bearer, denies_what_is_for_another_audience)
{
    A_PROVIDER;

    denies_claim(op, "aud", NULL, "its aud");
    denies_claim(op, "aud", json_string(OP_CLIENT), "its aud is none of the route's");
    denies_claim(op, "aud", json_string(AUDIENCE "/"), "its aud is none of the route's");
    denies_claim(op, "aud", json_pack("[s]", "of.others"), "its aud is none of the route's");
    denies_claim(op, "aud", json_pack("[si]", AUDIENCE, 1), "no list of texts");
    denies_claim(op, "aud", json_pack("{s:s}", AUDIENCE, AUDIENCE), "no list of texts");
    denies_claim(op, "aud", json_array(), "no list of texts");
    op_set(op->config, "bearer_audiences", json_array());
    denies(op, "its aud is none of the route's");
    op_set(op->config, "bearer_audiences", NULL);
    denies(op, "its aud is none of the route's");
}

/* An ID token has the client as its audience: only a route that names it lets it in. */
Test(oidc_bearer, denies_an_id_token_unless_the_client_is_an_audience_of_the_route)
{
    A_PROVIDER;

    op_set(op->header, "typ", json_string("JWT"));
    op_set(op->claims, "aud", json_string(OP_CLIENT));
    op_set(op->claims, "nonce", json_string(OP_NONCE));
    denies(op, "its aud is none of the route's");
    op_set(op->config, "bearer_audiences", json_pack("[s]", OP_CLIENT));
    admits(op);
    op_set(op->claims, "events",
           json_pack("{s:{}}", "http://schemas.openid.net/event/backchannel-logout"));
    denies(op, "events");
}

Test(oidc_bearer, denies_what_is_over_or_not_yet)
{
    A_PROVIDER;

    denies_claim(op, "exp", NULL, "its exp is no time");
    denies_claim(op, "exp", json_string("9999999999"), "its exp is no time");
    denies_claim(op, "exp", json_real(1e300), "its exp is no time");
    denies_claim(op, "exp", json_integer(OP_NOW_S), "it has expired");
    denies_claim(op, "exp", json_real(OP_NOW_S + 0.5), "it has expired");
    denies_claim(op, "nbf", json_integer(OP_NOW_S + 61), "its nbf is in the future");
    denies_claim(op, "nbf", json_string("now"), "its nbf is no time");
    denies_claim(op, "iat", json_integer(OP_NOW_S + 61), "its iat is in the future");
    denies_claim(op, "iat", json_null(), "its iat is no time");
    op_set(op->claims, "exp", json_integer(OP_NOW_S + 1));
    op_set(op->claims, "nbf", json_integer(OP_NOW_S + 60));
    op_set(op->claims, "iat", NULL);
    admits(op);
}

Test(oidc_bearer, denies_what_says_not_who_has_it_and_what_is_bound_to_a_key)
{
    A_PROVIDER;

    denies_claim(op, "sub", NULL, "its sub");
    denies_claim(op, "sub", json_string(""), "its sub");
    denies_claim(op, "sub", json_string("a\nb"), "its sub");
    denies_claim(op, "cnf", json_pack("{s:s}", "jkt", "x"), "its cnf");
}

Test(oidc_bearer, denies_what_is_too_long_and_what_is_no_token)
{
    A_PROVIDER;
    char pad[8 << 10];

    memset(pad, 'a', sizeof(pad) - 1);
    pad[sizeof(pad) - 1] = '\0';
    denies_claim(op, "pad", json_string(pad), "longer than 8 KiB");
    says(op, bring_text(op, strdup("a.b.c"), NULL), "no JSON object");
    says(op, bring_text(op, strdup(""), NULL), "three parts");
    op_set(op->params, "bearer_token", json_pack("[ss]", "a.b.c", "a.b.c"));
    says(op, op_run(op, PROVIDER_BEARER, NULL), "there must be one token");
    cr_assert_eq(op->calls[OP_METADATA] + op->calls[OP_KEYS], 0, "nobody is asked about it");
}

/* It is not the token's fault. */
Test(oidc_bearer, a_provider_that_does_not_answer_denies_no_token)
{
    A_PROVIDER;

    op->documents[OP_KEYS] = (json_decref(op->documents[OP_KEYS]), NULL);
    cr_assert_eq(bring(op, NULL), PROVIDER_UNAVAILABLE, "%s", op->why);
}

Test(oidc_bearer, an_id_token_for_several_audiences_is_no_access_token)
{
    static const char *const marks[] = {"nonce", "at_hash", "c_hash"};
    static const char *const types[] = {"JWT", "application/jwt", NULL};
    A_PROVIDER;

    op_set(op->claims, "aud", json_pack("[ss]", "client", AUDIENCE));
    op_set(op->claims, "azp", json_string("client"));
    for (size_t i = 0; i < LEN(types); i++) {
        op_set(op->header, "typ", types[i] ? json_string(types[i]) : NULL);
        admits(op);
        for (size_t j = 0; j < LEN(marks); j++)
            denies_claim(op, marks[j], json_string("x"), "it is an ID token");
    }
    op_set(op->header, "typ", json_string("at+jwt"));
    op_set(op->claims, "nonce", json_string("x"));
    admits(op);
}
