/* ID tokens, keys and logout tokens: what signs somebody in, and all that must not. Each denial is
 * of a whole sign-in, with a provider that gives the token. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"
#include "tests/unit/oidc_op.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <openssl/hmac.h>
#include <openssl/x509.h>
#include <sodium.h>
#include <string.h>

#define AN_OP(alg) _cleanup_(op_destroy) op_t *op = op_new(alg)

static void sign_in(op_t *op)
{
    cr_assert_eq(op_run(op, PROVIDER_CALLBACK, NULL), PROVIDER_DONE, "%s", op->why);
}

static void encode(char *out, size_t size, const void *bytes, size_t len)
{
    sodium_bin2base64(out, size, bytes, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
}

static json_t *first_key(op_t *op)
{
    return json_array_get(json_object_get(op->documents[OP_KEYS], "keys"), 0);
}

static json_t *key_list(op_t *op)
{
    return json_object_get(op->documents[OP_KEYS], "keys");
}

/* The provider gives this token, which must not sign in. Takes it. */
static void deny_token(op_t *op, char *token, const char *why)
{
    op_set(op->documents[OP_TOKENS], "id_token", json_string(token));
    free(token);
    op_denies(op, PROVIDER_INVALID, why);
}

/* ---- algorithms ---- */

struct algorithm_case {
    char alg[8];
};

ParameterizedTestParameters(oidc_token, signs_in_with_each_algorithm)
{
    static struct algorithm_case cases[] = {{"RS256"}, {"RS384"}, {"RS512"}, {"PS256"}, {"PS384"},
                                            {"PS512"}, {"ES256"}, {"ES384"}, {"ES512"}, {"EdDSA"}};
    return cr_make_param_array(struct algorithm_case, cases, LEN(cases));
}

/* And with no other way of signing by the same key, nor with a signature that is changed. */
ParameterizedTest(struct algorithm_case *one, oidc_token, signs_in_with_each_algorithm)
{
    static const char *const all[] = {
        "none",  "HS256", "HS384", "HS512", "RS256", "RS384",  "RS512", "PS256", "PS384", "PS512",
        "ES256", "ES384", "ES512", "EdDSA", "es256", "ES256K", "RS1",   "dir",   "A128KW"};
    AN_OP(one->alg);
    char *token;

    sign_in(op);
    op_set(first_key(op), "alg", NULL);
    provider_cache_destroy(&op->cache); /* each is judged by keys of its own */
    for (size_t i = 0; i < LEN(all); i++) {
        if (!strcmp(all[i], one->alg))
            continue;
        op_set(op->header, "alg", json_string(all[i]));
        deny_token(op, op_sign(op->key, one->alg, op->header, op->claims), "not valid");
    }
    op_set(op->header, "alg", json_string(one->alg));
    token = op_sign(op->key, one->alg, op->header, op->claims);
    token[strlen(token) - 10] ^= 1;
    deny_token(op, token, "not valid");
}

Test(oidc_token, denies_alg_none_with_and_without_a_signature)
{
    AN_OP("ES256");
    _cleanup_(free_mem) char *token = NULL;

    op_set(op->header, "alg", json_string("none"));
    token = op_sign(op->key, "ES256", op->header, op->claims);
    deny_token(op, strdup(token), "alg");
    strrchr(token, '.')[1] = '\0';
    deny_token(op, strdup(token), "not valid");
    op_set(op->header, "alg", NULL);
    deny_token(op, op_sign(op->key, "ES256", op->header, op->claims), "alg");
}

Test(oidc_token, denies_hs256_with_the_public_key_as_the_secret)
{
    AN_OP("RS256");
    _cleanup_(free_mem) char *set = json_dumps(op->documents[OP_KEYS], JSON_COMPACT);
    _cleanup_(free_mem) char *signed_text = NULL;
    unsigned char mac[EVP_MAX_MD_SIZE], *der = NULL;
    unsigned int len;
    int der_len = i2d_PUBKEY(op->key, &der);
    char text[100], *token;

    op_set(op->header, "alg", json_string("HS256"));
    signed_text = op_sign(op->key, "RS256", op->header, op->claims);
    *strrchr(signed_text, '.') = '\0';
    for (int i = 0; i < 2; i++) {
        HMAC(EVP_sha256(), i ? (const void *)set : (const void *)der,
             i ? (int)strlen(set) : der_len, (const unsigned char *)signed_text,
             strlen(signed_text), mac, &len);
        encode(text, sizeof(text), mac, len);
        cr_assert_neq(asprintf(&token, "%s.%s", signed_text, text), -1);
        deny_token(op, token, "alg");
    }
    /* A client secret is no key either. */
    HMAC(EVP_sha256(), "s ecret/:%", 10, (const unsigned char *)signed_text, strlen(signed_text),
         mac, &len);
    encode(text, sizeof(text), mac, len);
    cr_assert_neq(asprintf(&token, "%s.%s", signed_text, text), -1);
    deny_token(op, token, "alg");
    OPENSSL_free(der);
}

Test(oidc_token, denies_another_key_whatever_the_header_brings_along)
{
    AN_OP("ES256");
    EVP_PKEY *other = op_key("ES256");

    op_set(op->header, "jwk", op_jwk(other, "ES256", "k1"));
    op_set(op->header, "jku", json_string("https://evil.example.test/keys"));
    op_set(op->header, "x5u", json_string("https://evil.example.test/cert"));
    op_set(op->header, "x5c", json_pack("[s]", "MIIB"));
    deny_token(op, op_sign(other, "ES256", op->header, op->claims), "signature is wrong");
    cr_assert_eq(op->calls[OP_KEYS], 1);
    op_set(op->documents[OP_TOKENS], "id_token", NULL);
    sign_in(op);
    EVP_PKEY_free(other);
}

Test(oidc_token, denies_crit_and_types_of_other_tokens)
{
    AN_OP("ES256");

    op_set(op->header, "crit", json_pack("[s]", "b64"));
    op_set(op->header, "b64", json_false());
    op_denies(op, PROVIDER_INVALID, "crit");
    op_set(op->header, "crit", json_array());
    op_denies(op, PROVIDER_INVALID, "crit");
    op_set(op->header, "crit", NULL);
    op_set(op->header, "typ", json_string("at+jwt"));
    op_denies(op, PROVIDER_INVALID, "typ");
    op_set(op->header, "typ", json_string("logout+jwt"));
    op_denies(op, PROVIDER_INVALID, "typ");
    op_set(op->header, "typ", json_integer(1));
    op_denies(op, PROVIDER_INVALID, "typ");
    op_set(op->header, "typ", NULL);
    sign_in(op);
}

/* ---- key ids ---- */

Test(oidc_token, denies_key_ids_that_play_tricks)
{
    static const char *const kids[] = {"../../../../dev/null",
                                       "k1'; DROP TABLE keys; --",
                                       "k1' UNION SELECT 'x",
                                       "K1",
                                       "k1 ",
                                       "",
                                       "http://evil.example.test/k1",
                                       "*"};
    AN_OP("ES256");
    char longest[4096];

    provider_cache_destroy(&op->cache); /* each is judged by keys of its own */
    for (size_t i = 0; i < LEN(kids); i++) {
        op_set(op->header, "kid", json_string(kids[i]));
        op_denies(op, PROVIDER_INVALID, "kid");
    }
    memset(longest, 'k', sizeof(longest) - 1);
    longest[sizeof(longest) - 1] = '\0';
    op_set(op->header, "kid", json_string(longest));
    op_denies(op, PROVIDER_INVALID, "kid");
    op_set(op->header, "kid", json_integer(1));
    op_denies(op, PROVIDER_INVALID, "kid");
    op_set(op->header, "kid", json_pack("[s]", "k1"));
    op_denies(op, PROVIDER_INVALID, "kid");
    op_set(op->header, "kid", json_null());
    op_denies(op, PROVIDER_INVALID, "kid");
    deny_token(op,
               op_sign_bytes(op->key, "ES256", "{\"alg\":\"ES256\",\"kid\":\"k1\\u0000\"}", "{}"),
               "JSON");
    deny_token(
        op,
        op_sign_bytes(op->key, "ES256", "{\"alg\":\"ES256\",\"kid\":\"k1\",\"kid\":\"k1\"}", "{}"),
        "JSON");
}

Test(oidc_token, a_token_without_key_id_is_of_a_key_that_fits)
{
    AN_OP("ES256");
    EVP_PKEY *other = op_key("ES256"), *rsa = op_key("RS256");

    op_set(op->header, "kid", NULL);
    json_array_insert_new(key_list(op), 0, op_jwk(other, "ES256", "k0"));
    json_array_insert_new(key_list(op), 0, op_jwk(rsa, "RS256", "r"));
    sign_in(op);
    json_array_clear(key_list(op));
    json_array_append_new(key_list(op), op_jwk(rsa, "RS256", "r"));
    op->now_s += PROVIDER_CACHE_LIFE_S;
    op_set(op->claims, "exp", json_integer(op->now_s + 300));
    op_denies(op, PROVIDER_INVALID, "no key");
    EVP_PKEY_free(other);
    EVP_PKEY_free(rsa);
}

Test(oidc_token, two_keys_of_one_id_are_both_tried)
{
    AN_OP("ES256");
    EVP_PKEY *other = op_key("ES256");

    json_array_insert_new(key_list(op), 0, op_jwk(other, "ES256", "k1"));
    sign_in(op);
    EVP_PKEY_free(other);
}

/* ---- keys ---- */

static void refuse_key(op_t *op, const char *name, json_t *value)
{
    json_t *kept = json_deep_copy(op->documents[OP_KEYS]);
    provider_step_t step;

    provider_cache_destroy(&op->cache);
    op->cache = provider_cache_new(16, 1 << 20);
    op_set(first_key(op), name, value);
    step = op_run(op, PROVIDER_CALLBACK, NULL);
    cr_assert_eq(step, PROVIDER_INVALID, "%s", name);
    cr_assert(strstr(op->why, "key"), "%s", op->why);
    json_decref(op->documents[OP_KEYS]);
    op->documents[OP_KEYS] = kept;
}

Test(oidc_token, denies_keys_for_something_else)
{
    AN_OP("ES256");

    refuse_key(op, "use", json_string("enc"));
    refuse_key(op, "use", json_string("sig "));
    refuse_key(op, "use", json_pack("[s]", "sig"));
    refuse_key(op, "alg", json_string("ES384"));
    refuse_key(op, "alg", json_string("ECDH-ES"));
    refuse_key(op, "alg", json_integer(1));
    refuse_key(op, "key_ops", json_pack("[s]", "sign"));
    refuse_key(op, "key_ops", json_string("verify"));
    refuse_key(op, "kty", json_string("RSA"));
    refuse_key(op, "kty", json_string("oct"));
    refuse_key(op, "crv", json_string("P-384"));
    refuse_key(op, "crv", json_string("secp256k1"));
    refuse_key(op, "x", json_string("AA"));
    refuse_key(op, "x", json_string(json_string_value(json_object_get(first_key(op), "y"))));
    refuse_key(op, "y", NULL);
    op_set(first_key(op), "use", NULL);
    op_set(first_key(op), "alg", NULL);
    op_set(first_key(op), "key_ops", json_pack("[s]", "verify"));
    provider_cache_destroy(&op->cache);
    sign_in(op);
}

Test(oidc_token, denies_rsa_keys_that_are_short_or_trivial)
{
    AN_OP("RS256");
    EVP_PKEY *small = EVP_PKEY_Q_keygen(NULL, NULL, "RSA", (size_t)1024);
    json_t *jwk = op_jwk(small, "RS256", "k1");

    refuse_key(op, "e", json_string("AQ"));
    refuse_key(op, "e", json_string("Ag"));
    refuse_key(op, "e", json_string("AAEAAQ"));
    refuse_key(op, "e", json_string("AQAB="));
    refuse_key(op, "n", json_string("AQAB"));
    json_array_set_new(key_list(op), 0, jwk);
    EVP_PKEY_free(op->key);
    op->key = small;
    provider_cache_destroy(&op->cache);
    op_denies(op, PROVIDER_INVALID, "no key");
}

Test(oidc_token, denies_key_sets_beyond_the_limits)
{
    AN_OP("ES256");
    _cleanup_(free_mem) char *large = malloc((1 << 20) + 1);

    for (int i = 1; i < 100; i++)
        json_array_insert_new(key_list(op), 0, json_pack("{s:s}", "kty", "oct"));
    sign_in(op);
    json_array_insert_new(key_list(op), 0, json_pack("{s:s}", "kty", "oct"));
    provider_cache_destroy(&op->cache);
    op_denies(op, PROVIDER_INVALID, "more than 100");
    op->bodies[OP_KEYS] = "{\"keys\":[1]}";
    op_denies(op, PROVIDER_INVALID, "no object");
    op->bodies[OP_KEYS] = "{\"keys\":{}}";
    op_denies(op, PROVIDER_INVALID, "no list");
    op->bodies[OP_KEYS] = "{\"keys\":[]}";
    op_denies(op, PROVIDER_INVALID, "no key");
    memset(large, ' ', 1 << 20);
    large[1 << 20] = '\0';
    memcpy(large, "{\"keys\":[]}", 11);
    op->bodies[OP_KEYS] = large;
    op_denies(op, PROVIDER_INVALID, "limits");
}

/* ---- signatures ---- */

Test(oidc_token, denies_ecdsa_signatures_of_another_form)
{
    AN_OP("ES256");
    _cleanup_(free_mem) char *token = op_sign(op->key, "ES256", op->header, op->claims);
    char *signature = strrchr(token, '.') + 1;
    unsigned char der[256], zeros[64] = {0}, padded[66] = {0}, *raw;
    size_t len = sizeof(der);
    EVP_MD_CTX *context = EVP_MD_CTX_new();
    char text[400], *changed;

    EVP_DigestSignInit_ex(context, NULL, "SHA256", NULL, NULL, op->key, NULL);
    EVP_DigestSign(context, der, &len, (unsigned char *)token, (size_t)(signature - 1 - token));
    EVP_MD_CTX_free(context);
    encode(text, sizeof(text), der, len);
    cr_assert_neq(asprintf(&changed, "%.*s%s", (int)(signature - token), token, text), -1);
    deny_token(op, changed, "signature is wrong");
    encode(text, sizeof(text), zeros, sizeof(zeros));
    cr_assert_neq(asprintf(&changed, "%.*s%s", (int)(signature - token), token, text), -1);
    deny_token(op, changed, "signature is wrong");
    raw = oidc_base64url(signature, strlen(signature), &len);
    memcpy(padded + 1, raw, 32);
    memcpy(padded + 34, raw + 32, 32);
    free(raw);
    encode(text, sizeof(text), padded, sizeof(padded));
    cr_assert_neq(asprintf(&changed, "%.*s%s", (int)(signature - token), token, text), -1);
    deny_token(op, changed, "signature is wrong");
    for (size_t cut = 1; cut <= strlen(signature); cut++) {
        changed = strndup(token, strlen(token) - cut);
        deny_token(op, changed, "not valid");
    }
    cr_assert_neq(asprintf(&changed, "%sAAAA", token), -1);
    deny_token(op, changed, "not valid");
}

Test(oidc_token, denies_a_truncated_rsa_signature)
{
    AN_OP("RS256");
    _cleanup_(free_mem) char *token = op_sign(op->key, "RS256", op->header, op->claims);

    for (size_t cut = 1; cut < 40; cut++)
        deny_token(op, strndup(token, strlen(token) - cut), "not valid");
}

/* Whatever the library that decodes takes: the alphabet has 64 characters, in one form. */
Test(oidc_token, base64url_has_no_second_spelling)
{
    static const char alphabet[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    size_t len;

    for (int c = 1; c < 256; c++)
        for (int at = 0; at < 4; at++) {
            char text[] = "AAAA";
            unsigned char *bytes;

            text[at] = (char)c;
            bytes = oidc_base64url(text, 4, &len);
            cr_assert_eq(bytes != NULL, strchr(alphabet, c) != NULL, "%d", c);
            free(bytes);
        }
    cr_assert_null(oidc_base64url("AB", 2, &len), "bits that no byte needs are 0");
    cr_assert_null(oidc_base64url("AA==", 4, &len));
    cr_assert_null(oidc_base64url("A", 1, &len));
    cr_assert_null(oidc_base64url("", 0, &len));
}

/* No byte may be another: not one bit of it, nor may the text have a second spelling. */
Test(oidc_token, denies_every_flip_of_a_bit_of_every_byte)
{
    AN_OP("ES256");
    char *token = op_sign(op->key, "ES256", op->header, op->claims);
    _cleanup_(free_mem) char *set = json_dumps(op->documents[OP_KEYS], JSON_COMPACT);
    oidc_keys_t *keys = NULL;
    oidc_token_t read;

    cr_assert_null(oidc_keys_read(&keys, set, strlen(set)));
    cr_assert_null(oidc_token_read(&read, token, NULL));
    cr_assert_eq(oidc_token_verify(&read, keys), OIDC_VERIFIED);
    oidc_token_done(&read);
    for (char *at = token; *at; at++)
        for (int bit = 0; bit < 8; bit++) {
            bool is_good;

            *at = (char)(*at ^ (1 << bit));
            is_good = !oidc_token_read(&read, token, NULL)
                      && oidc_token_verify(&read, keys) == OIDC_VERIFIED;
            oidc_token_done(&read);
            cr_assert_not(is_good, "byte %zu, bit %d", (size_t)(at - token), bit);
            *at = (char)(*at ^ (1 << bit));
        }
    oidc_keys_free(&keys);
    free(token);
}

/* ---- claims ---- */

static void refuse_claim(op_t *op, const char *name, json_t *value, const char *why)
{
    json_t *kept = json_deep_copy(op->claims);

    op_set(op->claims, name, value);
    op_denies(op, PROVIDER_INVALID, why);
    json_decref(op->claims);
    op->claims = kept;
}

Test(oidc_token, denies_another_issuer)
{
    AN_OP("ES256");

    refuse_claim(op, "iss", NULL, "iss");
    refuse_claim(op, "iss", json_string("https://evil.example.test"), "iss");
    refuse_claim(op, "iss", json_string(OP_ISSUER "/"), "iss");
    refuse_claim(op, "iss", json_pack("[s]", OP_ISSUER), "iss");
}

Test(oidc_token, denies_another_clients_token)
{
    AN_OP("ES256");

    refuse_claim(op, "aud", NULL, "aud");
    refuse_claim(op, "aud", json_string("other"), "aud");
    refuse_claim(op, "aud", json_string("clien"), "aud");
    refuse_claim(op, "aud", json_array(), "aud");
    refuse_claim(op, "aud", json_pack("[s]", "other"), "aud");
    refuse_claim(op, "aud", json_pack("[si]", OP_CLIENT, 1), "aud");
    refuse_claim(op, "aud", json_pack("{s:s}", "a", OP_CLIENT), "aud");
    refuse_claim(op, "aud", json_pack("[ss]", OP_CLIENT, "other"), "azp");
    refuse_claim(op, "azp", json_string("other"), "azp");
    refuse_claim(op, "azp", json_pack("[s]", OP_CLIENT), "azp");
    op_set(op->claims, "aud", json_pack("[ss]", "other", OP_CLIENT));
    op_set(op->claims, "azp", json_string(OP_CLIENT));
    sign_in(op);
}

Test(oidc_token, denies_times_that_are_over_to_come_or_none)
{
    AN_OP("ES256");

    refuse_claim(op, "exp", json_integer(OP_NOW_S - 60), "expired");
    refuse_claim(op, "exp", json_real(OP_NOW_S - 60 + 0.5), "expired");
    refuse_claim(op, "exp", NULL, "exp");
    refuse_claim(op, "exp", json_integer(-1), "exp");
    refuse_claim(op, "exp", json_integer(INT64_MAX), "exp");
    refuse_claim(op, "exp", json_integer(INT64_MIN), "exp");
    refuse_claim(op, "exp", json_real(1e300), "exp");
    refuse_claim(op, "exp", json_real(-1e300), "exp");
    refuse_claim(op, "exp", json_string("1900000000"), "exp");
    refuse_claim(op, "iat", NULL, "iat");
    refuse_claim(op, "iat", json_integer(OP_NOW_S + 61), "future");
    refuse_claim(op, "iat", json_real(1e300), "iat");
    refuse_claim(op, "nbf", json_integer(OP_NOW_S + 61), "future");
    refuse_claim(op, "nbf", json_string("x"), "nbf");
    refuse_claim(op, "nbf", json_null(), "nbf");
    refuse_claim(op, "auth_time", json_integer(OP_NOW_S + 61), "auth_time");
    op_set(op->claims, "exp", json_real(OP_NOW_S + 1.5));
    op_set(op->claims, "iat", json_integer(OP_NOW_S + 60));
    op_set(op->claims, "nbf", json_integer(OP_NOW_S + 60));
    op_set(op->claims, "auth_time", json_integer(OP_NOW_S));
    sign_in(op);
}

Test(oidc_token, denies_numbers_that_no_machine_holds)
{
    static const char *const exps[] = {"1e999", "-1e999", "99999999999999999999999", "0x7fffffff",
                                       "NaN"};
    AN_OP("ES256");
    char claims[400];

    for (size_t i = 0; i < LEN(exps); i++) {
        snprintf(claims, sizeof(claims),
                 "{\"iss\":\"" OP_ISSUER "\",\"aud\":\"client\",\"sub\":\"alice\",\"exp\":%s,"
                 "\"iat\":1,\"nonce\":\"" OP_NONCE "\"}",
                 exps[i]);
        deny_token(op,
                   op_sign_bytes(op->key, "ES256", "{\"alg\":\"ES256\",\"kid\":\"k1\"}", claims),
                   "JSON");
    }
}

Test(oidc_token, denies_another_sign_ins_nonce)
{
    AN_OP("ES256");

    refuse_claim(op, "nonce", NULL, "nonce");
    refuse_claim(op, "nonce", json_string(""), "nonce");
    refuse_claim(op, "nonce", json_string("nonce-nonce-nonce-nonce-nonce-nonce-nonce-2"), "nonce");
    refuse_claim(op, "nonce", json_pack("[s]", OP_NONCE), "nonce");
}

Test(oidc_token, denies_a_subject_that_is_none)
{
    AN_OP("ES256");
    char longest[257];

    memset(longest, 's', sizeof(longest) - 1);
    longest[256] = '\0';
    refuse_claim(op, "sub", NULL, "sub");
    refuse_claim(op, "sub", json_string(""), "sub");
    refuse_claim(op, "sub", json_integer(1), "sub");
    refuse_claim(op, "sub", json_string(longest), "sub");
    refuse_claim(op, "sub", json_string("a\nb"), "sub");
    longest[255] = '\0';
    op_set(op->claims, "sub", json_string(longest));
    op_set(op->documents[OP_USERINFO], "sub", json_string(longest));
    sign_in(op);
}

struct hash_case {
    char alg[8], digest[8];
};

ParameterizedTestParameters(oidc_token, at_hash_is_the_access_tokens)
{
    static struct hash_case cases[] = {
        {"ES256", "SHA256"}, {"ES384", "SHA384"}, {"EdDSA", "SHA512"}};
    return cr_make_param_array(struct hash_case, cases, LEN(cases));
}

ParameterizedTest(struct hash_case *one, oidc_token, at_hash_is_the_access_tokens)
{
    AN_OP(one->alg);
    unsigned char hash[EVP_MAX_MD_SIZE];
    char text[100];
    size_t len;

    EVP_Q_digest(NULL, one->digest, NULL, "acce55", 6, hash, &len);
    encode(text, sizeof(text), hash, len / 2);
    op_set(op->claims, "at_hash", json_string(text));
    sign_in(op);
    encode(text, sizeof(text), hash, len);
    refuse_claim(op, "at_hash", json_string(text), "at_hash");
    refuse_claim(op, "at_hash", json_string("x"), "at_hash");
    refuse_claim(op, "at_hash", json_null(), "at_hash");
}

Test(oidc_token, max_age_needs_an_auth_time_that_is_late_enough)
{
    oidc_token_t token = {.algorithm = oidc_algorithm_find("ES256")};
    oidc_expected_t expected = {
        .issuer = "https://a", .client_id = "c", .max_age_s = 100, .now_s = OP_NOW_S};

    token.claims = json_pack("{s:s, s:s, s:s, s:I, s:I}", "iss", "https://a", "aud", "c", "sub",
                             "s", "exp", (json_int_t)OP_NOW_S + 1, "iat", (json_int_t)OP_NOW_S);
    cr_assert_str_eq(oidc_token_fault(&token, &expected), "its auth_time is no time");
    json_object_set_new(token.claims, "auth_time", json_integer(OP_NOW_S - 161));
    cr_assert(strstr(oidc_token_fault(&token, &expected), "longer ago"));
    json_object_set_new(token.claims, "auth_time", json_integer(OP_NOW_S - 160));
    cr_assert_null(oidc_token_fault(&token, &expected));
    oidc_token_done(&token);
}

Test(oidc_token, denies_what_is_no_token)
{
    AN_OP("ES256");
    _cleanup_(free_mem) char *token = op_sign(op->key, "ES256", op->header, op->claims);
    static const char *const broken[] = {
        "a", "..", "a.b.c", "e30.e30.e30", "....", "e30=.e30.AAAA", "W10.e30.AAAA"};
    char *longest = malloc(40000);

    for (size_t i = 0; i < LEN(broken); i++)
        deny_token(op, strdup(broken[i]), "not valid");
    memset(longest, 'A', 39999);
    longest[39999] = '\0';
    deny_token(op, longest, "id_token");
    cr_assert_neq(asprintf(&longest, "%s.%s", token, "AAAA"), -1);
    deny_token(op, longest, "three parts");
    cr_assert_neq(asprintf(&longest, "%s=", token), -1);
    deny_token(op, longest, "not valid");
}

/* ---- logout ---- */

typedef struct logout_world {
    op_t *op;
    char *set;
    json_t *claims;
} logout_world_t;

static logout_world_t logout_world(void)
{
    logout_world_t self = {.op = op_new("ES256")};

    self.set = json_dumps(self.op->documents[OP_KEYS], JSON_COMPACT);
    op_set(self.op->header, "typ", json_string("logout+jwt"));
    self.claims = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:{s:{}}}", "iss", OP_ISSUER,
                            "aud", OP_CLIENT, "sub", "alice", "exp", (json_int_t)OP_NOW_S + 60,
                            "iat", (json_int_t)OP_NOW_S, "jti", "j1", "sid", "s1", "events",
                            "http://schemas.openid.net/event/backchannel-logout");
    return self;
}

static const char *logout_fault(logout_world_t *self, oidc_logout_t *out)
{
    char *token = op_sign(self->op->key, "ES256", self->op->header, self->claims);
    const char *fault =
        oidc_logout_read(out, token, self->set, strlen(self->set), OP_ISSUER, OP_CLIENT, OP_NOW_S);

    free(token);
    return fault;
}

static void refuse_logout(logout_world_t *self, const char *name, json_t *value, const char *why)
{
    json_t *kept = json_deep_copy(self->claims);
    oidc_logout_t out;
    const char *fault;

    op_set(self->claims, name, value);
    fault = logout_fault(self, &out);
    cr_assert(fault && strstr(fault, why), "%s: %s", name, fault ? fault : "no fault");
    json_decref(self->claims);
    self->claims = kept;
}

Test(oidc_token, logout_tokens_say_whose_sessions_end_and_nothing_else_does)
{
    logout_world_t world = logout_world();
    oidc_logout_t out;

    cr_assert_null(logout_fault(&world, &out));
    cr_assert_str_eq(out.sub, "alice");
    cr_assert_str_eq(out.sid, "s1");
    cr_assert_str_eq(out.jti, "j1");
    cr_assert_eq(out.expires_s, OP_NOW_S + 60);
    refuse_logout(&world, "nonce", json_string("n"), "nonce");
    refuse_logout(&world, "events", NULL, "events");
    refuse_logout(&world, "events", json_pack("{s:{}}", "other"), "events");
    refuse_logout(&world, "jti", NULL, "jti");
    refuse_logout(&world, "sid", json_integer(1), "sid");
    refuse_logout(&world, "iss", json_string("https://evil"), "iss");
    refuse_logout(&world, "aud", json_string("other"), "aud");
    refuse_logout(&world, "exp", NULL, "exp");
    refuse_logout(&world, "exp", json_integer(OP_NOW_S - 60), "expired");
    refuse_logout(&world, "iat", json_integer(OP_NOW_S + 61), "future");
    cr_assert_eq(out.too_old_s, OP_NOW_S + 60 + OIDC_SKEW_S, "it has expired by then");
    op_set(world.claims, "exp", json_integer(OP_NOW_S + 86400));
    refuse_logout(&world, "iat", json_integer(OP_NOW_S - OIDC_LOGOUT_AGE_S - OIDC_SKEW_S),
                  "too long ago");
    cr_assert_null(logout_fault(&world, &out));
    cr_assert_eq(out.too_old_s, OP_NOW_S + OIDC_LOGOUT_AGE_S + OIDC_SKEW_S,
                 "nobody remembers it for longer, whatever it says");
    op_set(world.claims, "sub", NULL);
    cr_assert_null(logout_fault(&world, &out));
    refuse_logout(&world, "sid", NULL, "sub or sid");
    op_set(world.op->header, "typ", json_string("at+jwt"));
    cr_assert_not_null(logout_fault(&world, &out));
    json_decref(world.claims);
    free(world.set);
    op_destroy(&world.op);
}

Test(oidc_token, end_session_is_where_the_metadata_says)
{
    AN_OP("ES256");
    char *metadata = json_dumps(op->documents[OP_METADATA], 0), *url;

    url =
        oidc_end_session_url(metadata, strlen(metadata), OP_ISSUER, "c", "t", "https://a/?b", "s");
    cr_assert_str_eq(url, OP_ISSUER "/end?client_id=c&post_logout_redirect_uri=https%3A%2F%2Fa%2F%"
                                    "3Fb&state=s&id_token_hint=t");
    free(url);
    cr_assert_null(oidc_end_session_url(metadata, strlen(metadata), "https://other", "c", NULL,
                                        "https://a", NULL));
    free(metadata);
    op_set(op->documents[OP_METADATA], "end_session_endpoint", NULL);
    metadata = json_dumps(op->documents[OP_METADATA], 0);
    cr_assert_null(
        oidc_end_session_url(metadata, strlen(metadata), OP_ISSUER, "c", NULL, "https://a", NULL));
    free(metadata);
}
