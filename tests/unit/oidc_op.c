#include "tests/unit/oidc_op.h"
#include "common/base/cleanup.h"
#include "common/out/outbound.h"
#include "services/identity/person.h"

#include <criterion/criterion.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/ecdsa.h>
#include <openssl/rsa.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>

static char *base64url(const void *bytes, size_t len)
{
    size_t size = sodium_base64_ENCODED_LEN(len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
    char *text = malloc(size);

    return sodium_bin2base64(text, size, bytes, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

/* ---- keys ---- */

EVP_PKEY *op_key(const char *alg)
{
    if (!strcmp(alg, "EdDSA"))
        return EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    if (alg[0] == 'E')
        return EVP_PKEY_Q_keygen(NULL, NULL, "EC",
                                 alg[2] == '2'   ? "P-256"
                                 : alg[2] == '3' ? "P-384"
                                                 : "P-521");
    return EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)2048);
}

static void set_number(json_t *jwk, const char *name, EVP_PKEY *key, const char *param, int len)
{
    BIGNUM *number = NULL;
    unsigned char bytes[1024];
    char *text;

    EVP_PKEY_get_bn_param(key, param, &number);
    len = len ? len : BN_num_bytes(number);
    BN_bn2binpad(number, bytes, len);
    text = base64url(bytes, (size_t)len);
    json_object_set_new(jwk, name, json_string(text));
    free(text);
    BN_free(number);
}

json_t *op_jwk(EVP_PKEY *key, const char *alg, const char *kid)
{
    json_t *jwk = json_pack("{s:s, s:s, s:s}", "use", "sig", "alg", alg, "kid", kid);
    int bytes = (EVP_PKEY_get_bits(key) + 7) / 8;

    if (EVP_PKEY_is_a(key, "RSA")) {
        json_object_set_new(jwk, "kty", json_string("RSA"));
        set_number(jwk, "n", key, OSSL_PKEY_PARAM_RSA_N, 0);
        set_number(jwk, "e", key, OSSL_PKEY_PARAM_RSA_E, 0);
    } else if (EVP_PKEY_is_a(key, "EC")) {
        json_object_set_new(jwk, "kty", json_string("EC"));
        json_object_set_new(jwk, "crv",
                            json_string(bytes == 32   ? "P-256"
                                        : bytes == 48 ? "P-384"
                                                      : "P-521"));
        set_number(jwk, "x", key, OSSL_PKEY_PARAM_EC_PUB_X, bytes);
        set_number(jwk, "y", key, OSSL_PKEY_PARAM_EC_PUB_Y, bytes);
    } else {
        unsigned char raw[32];
        size_t len = sizeof(raw);
        char *text;

        EVP_PKEY_get_raw_public_key(key, raw, &len);
        text = base64url(raw, len);
        json_object_set_new(jwk, "kty", json_string("OKP"));
        json_object_set_new(jwk, "crv", json_string("Ed25519"));
        json_object_set_new(jwk, "x", json_string(text));
        free(text);
    }
    return jwk;
}

/* ---- signing ---- */

/* R and S side by side. */
static size_t flatten(unsigned char *signature, size_t len, int half)
{
    const unsigned char *at = signature;
    ECDSA_SIG *pair = d2i_ECDSA_SIG(NULL, &at, (long)len);

    BN_bn2binpad(ECDSA_SIG_get0_r(pair), signature, half);
    BN_bn2binpad(ECDSA_SIG_get0_s(pair), signature + half, half);
    ECDSA_SIG_free(pair);
    return 2 * (size_t)half;
}

static char *signature_of(EVP_PKEY *key, const char *alg, const char *data)
{
    char digest[8];
    unsigned char signature[1024];
    size_t len = sizeof(signature);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    EVP_PKEY_CTX *of_key;
    char *text;

    snprintf(digest, sizeof(digest), "SHA%s", alg + 2);
    cr_assert_eq(EVP_DigestSignInit_ex(context, &of_key, strcmp(alg, "EdDSA") ? digest : NULL, NULL,
                                       NULL, key, NULL),
                 1);
    if (alg[0] == 'P') {
        EVP_PKEY_CTX_set_rsa_padding(of_key, RSA_PKCS1_PSS_PADDING);
        EVP_PKEY_CTX_set_rsa_pss_saltlen(of_key, RSA_PSS_SALTLEN_DIGEST);
    }
    cr_assert_eq(
        EVP_DigestSign(context, signature, &len, (const unsigned char *)data, strlen(data)), 1);
    if (alg[0] == 'E' && alg[1] == 'S')
        len = flatten(signature, len, (EVP_PKEY_get_bits(key) + 7) / 8);
    text = base64url(signature, len);
    EVP_MD_CTX_free(context);
    return text;
}

char *op_sign_bytes(EVP_PKEY *key, const char *alg, const char *header, const char *claims)
{
    _cleanup_(free_mem) char *first = base64url(header, strlen(header));
    _cleanup_(free_mem) char *second = base64url(claims, strlen(claims));
    _cleanup_(free_mem) char *data = NULL, *signature = NULL;
    char *token = NULL;

    cr_assert_neq(asprintf(&data, "%s.%s", first, second), -1);
    signature = signature_of(key, alg, data);
    cr_assert_neq(asprintf(&token, "%s.%s", data, signature), -1);
    return token;
}

char *op_sign(EVP_PKEY *key, const char *alg, const json_t *header, const json_t *claims)
{
    _cleanup_(free_mem) char *first = json_dumps(header, JSON_COMPACT);
    _cleanup_(free_mem) char *second = json_dumps(claims, JSON_COMPACT);

    return op_sign_bytes(key, alg, first, second);
}

/* ---- the provider ---- */

void op_set(json_t *object, const char *name, json_t *value)
{
    if (value)
        json_object_set_new(object, name, value);
    else
        json_object_del(object, name);
}

static json_t *metadata_new(void)
{
    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:[s], s:[s], s:[ss]}", "issuer", OP_ISSUER,
                     "authorization_endpoint", OP_ISSUER "/auth?a=b", "token_endpoint",
                     OP_ISSUER "/token", "jwks_uri", OP_ISSUER "/keys", "userinfo_endpoint",
                     OP_ISSUER "/me", "end_session_endpoint", OP_ISSUER "/end",
                     "response_types_supported", "code", "subject_types_supported", "public",
                     "id_token_signing_alg_values_supported", "RS256", "ES256");
}

op_t *op_new(const char *alg)
{
    op_t *self = calloc(1, sizeof(*self));

    self->alg = alg;
    self->key = op_key(alg);
    self->now_s = OP_NOW_S;
    self->gives_id_token = true;
    self->cache = provider_cache_new(16, 1 << 20);
    self->config = json_pack("{s:s, s:s, s:s, s:[]}", "issuer", OP_ISSUER, "client_id", OP_CLIENT,
                             "client_secret", "s ecret/:%", "scopes");
    self->params = json_pack("{s:[s], s:[s]}", "code", "c0de", "state", OP_STATE);
    self->header = json_pack("{s:s, s:s, s:s}", "alg", alg, "kid", "k1", "typ", "JWT");
    self->claims = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "iss", OP_ISSUER, "aud", OP_CLIENT,
                             "sub", "alice", "exp", (json_int_t)OP_NOW_S + 300, "iat",
                             (json_int_t)OP_NOW_S, "nonce", OP_NONCE);
    self->documents[OP_METADATA] = metadata_new();
    self->documents[OP_TOKENS] = json_pack("{s:s, s:s, s:i}", "token_type", "Bearer",
                                           "access_token", "acce55", "expires_in", 3600);
    self->documents[OP_KEYS] = json_pack("{s:[o]}", "keys", op_jwk(self->key, alg, "k1"));
    self->documents[OP_USERINFO] =
        json_pack("{s:s, s:s, s:s, s:b, s:[ss]}", "sub", "alice", "name", "Alice", "email",
                  "alice@example.test", "email_verified", 1, "groups", "staff", "admins");
    for (int i = 0; i < OP_PLACES; i++)
        self->status[i] = 200;
    return self;
}

void op_destroy(op_t **self_p)
{
    op_t *self = take(*self_p);

    EVP_PKEY_free(self->key);
    provider_cache_destroy(&self->cache);
    person_done(&self->tokens);
    json_decref(self->config);
    json_decref(self->params);
    json_decref(self->header);
    json_decref(self->claims);
    for (int i = 0; i < OP_PLACES; i++)
        json_decref(self->documents[i]);
    free(self->body);
    free(self->authorization);
    free(self);
}

static op_place_t place_of(const char *url)
{
    if (strstr(url, "/.well-known/openid-configuration"))
        return OP_METADATA;
    return strstr(url, "/token") ? OP_TOKENS : strstr(url, "/keys") ? OP_KEYS : OP_USERINFO;
}

static void note_token_request(op_t *self, const fetch_t *want)
{
    free(self->body);
    free(self->authorization);
    self->body = strdup(want->body);
    self->authorization = strdup("");
    for (int i = 0; want->headers[i]; i++)
        if (!strncmp(want->headers[i], "Authorization: ", 15)) {
            free(self->authorization);
            self->authorization = strdup(want->headers[i] + 15);
        }
}

/* The body of an answer; the caller frees it. NULL: nobody answers. */
static char *answer_of(op_t *self, const fetch_t *want, op_place_t place)
{
    _cleanup_(json_clear_ref) json_t *document = NULL;
    _cleanup_(free_mem) char *token = NULL;

    self->calls[place]++;
    if (place == OP_TOKENS)
        note_token_request(self, want);
    if (self->bodies[place])
        return strdup(self->bodies[place]);
    if (!self->documents[place])
        return NULL;
    document = json_copy(self->documents[place]);
    if (place == OP_TOKENS && self->gives_id_token && !json_object_get(document, "id_token")) {
        token = op_sign(self->key, self->alg, self->header, self->claims);
        json_object_set_new(document, "id_token", json_string(token));
    }
    return json_dumps(document, JSON_COMPACT);
}

provider_step_t op_step(op_t *self, void *flow, fetch_t *want)
{
    _cleanup_(free_mem) char *body = NULL;
    fetched_t answer;
    op_place_t place;

    if (!want->url)
        return provider_oidc.next(flow, NULL, want);
    cr_assert_eq(strncmp(want->url, "https://", 8), 0);
    place = place_of(want->url);
    body = answer_of(self, want, place);
    answer = (fetched_t){.end = body ? OUTBOUND_ANSWERED : OUTBOUND_CONNECT,
                         .reason = body ? "" : "nobody\nis there",
                         .status = body ? self->status[place] : 0,
                         .body = body,
                         .body_len = body ? strlen(body) : 0,
                         .cache_control = self->cache_control,
                         .content_type = self->content_type};
    if (provider_oidc.weight(flow) > self->heaviest)
        self->heaviest = provider_oidc.weight(flow);
    return provider_oidc.next(flow, &answer, want);
}

static provider_step_t drive(op_t *self, void *flow)
{
    fetch_t want = {0};
    provider_step_t step = op_step(self, flow, &want);

    for (int i = 0; step == PROVIDER_FETCH; i++) {
        cr_assert_lt(i, 8, "the flow does not end");
        step = op_step(self, flow, &want);
    }
    return step;
}

void *op_start(op_t *self, provider_operation_t operation)
{
    const bool is_refresh = operation == PROVIDER_REFRESH;
    const provider_ask_t ask = {
        .config = self->config,
        .module = "oidc",
        .redirect_uri = is_refresh ? NULL : "https://h/oauth2/callback",
        .state = is_refresh ? NULL : OP_STATE,
        .nonce = is_refresh ? NULL : OP_NONCE,
        .verifier = is_refresh ? NULL : OP_VERIFIER,
        .refresh_token = self->refresh_token,
        .access_token = self->access_token,
        .known = is_refresh || operation == PROVIDER_LEAVE ? &self->known : NULL,
        .params = operation == PROVIDER_CALLBACK || operation == PROVIDER_ENDED
                          || operation == PROVIDER_BEARER
                      ? self->params
                      : NULL,
        .now_s = self->now_s,
        .force = self->force,
        .cache = self->cache};
    void *flow = NULL;

    cr_assert_eq(provider_oidc.start(&flow, operation, &ask), 0);
    return flow;
}

provider_step_t op_run(op_t *self, provider_operation_t operation, person_t *who)
{
    void *flow = op_start(self, operation);
    provider_step_t step = drive(self, flow);

    snprintf(self->why, sizeof(self->why), "%s", provider_oidc.why(flow));
    person_done(&self->tokens);
    self->gave_tokens = provider_oidc.tokens(flow, &self->tokens);
    if (step == PROVIDER_DONE && operation == PROVIDER_ENDED)
        self->ended = *oidc_ended(flow);
    else if (step == PROVIDER_DONE && (operation == PROVIDER_BEGIN || operation == PROVIDER_LEAVE))
        snprintf(self->location, sizeof(self->location), "%s",
                 provider_oidc.location(flow) ? provider_oidc.location(flow) : "");
    else if (step == PROVIDER_DONE && who)
        provider_oidc.person(flow, who);
    provider_oidc.free(&flow);
    return step;
}

void op_denies(op_t *self, provider_step_t step, const char *why)
{
    provider_step_t got = op_run(self, PROVIDER_CALLBACK, NULL);

    cr_assert_eq(got, step, "step %d, not %d: %s", got, step, self->why);
    cr_assert(strstr(self->why, why), "'%s' is not in: %s", why, self->why);
}
