/* JWTs for upstreams: what they say, that only their period's key verifies them, and that the key
 * set has it before and after. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"
#include "services/identity/user_jwt.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { NOW = 1764000000 };

static secret_key_t *key_of(const char *name)
{
    secret_key_t *key = NULL;
    char path[64];

    snprintf(path, sizeof(path), "/tmp/postern-jwt-%d-%s", (int)getpid(), name);
    cr_assert_eq(secret_key_load(&key, path), 0);
    unlink(path);
    return key;
}

static person_t alice(void)
{
    return (person_t){.name = "Alice \"A\" Lidd\u00e9ll",
                      .email = "alice@example.test",
                      .email_verified = true,
                      .groups = json_pack("[ss]", "staff", "a,b")};
}

static user_jwt_t what_of(const person_t *person, int64_t now_s)
{
    return (user_jwt_t){.issuer = "https://idp.example.test",
                        .audience = "https://app.example.test:8443",
                        .subject = "app_user_1",
                        .session = "app_session_1",
                        .person = person,
                        .now_s = now_s,
                        .expires_s = now_s + 86400};
}

/* As an upstream verifies it, with the code that verifies providers' tokens. */
static bool verifies(const secret_key_t *key, int64_t keys_s, const char *jwt, json_t **ret_claims)
{
    _cleanup_(json_clear_ref) json_t *set = NULL;
    _cleanup_(free_mem) char *text = NULL;
    _cleanup_(oidc_token_done) oidc_token_t token = {0};
    oidc_keys_t *keys = NULL;
    oidc_verdict_t verdict;

    cr_assert_eq(user_jwt_keys(key, keys_s, &set), 0);
    text = json_dumps(set, 0);
    cr_assert_null(oidc_token_read(&token, jwt, NULL));
    cr_assert_str_eq(json_string_value(json_object_get(token.header, "alg")), "ES256");
    cr_assert_null(oidc_keys_read(&keys, text, strlen(text)));
    verdict = oidc_token_verify(&token, keys);
    oidc_keys_free(&keys);
    if (ret_claims)
        *ret_claims = json_incref(token.claims);
    return verdict == OIDC_VERIFIED;
}

Test(user_jwt, says_who_it_is_to_whom_and_until_when)
{
    secret_key_t *key = key_of("says");
    _cleanup_(json_clear_ref) json_t *claims = NULL;
    _cleanup_(json_clear_ref) json_t *expected = NULL;
    _cleanup_(free_mem) char *jwt = NULL;
    person_t person = alice();
    user_jwt_t what = what_of(&person, NOW);

    cr_assert_eq(user_jwt_make(key, &what, &jwt), 0);
    cr_assert(verifies(key, NOW, jwt, &claims));
    expected = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:b, s:[ss], s:i, s:i}", "iss",
                         "https://idp.example.test", "aud", "https://app.example.test:8443", "sub",
                         "app_user_1", "sid", "app_session_1", "name", person.name, "email",
                         "alice@example.test", "email_verified", 1, "groups", "staff", "a,b", "iat",
                         NOW, "exp", NOW + USER_JWT_LASTS_S);
    cr_assert(json_equal(claims, expected));
    json_decref(person.groups);
    secret_key_destroy(&key);
}

Test(user_jwt, lasts_no_longer_than_its_session)
{
    secret_key_t *key = key_of("lasts");
    _cleanup_(json_clear_ref) json_t *claims = NULL;
    _cleanup_(free_mem) char *jwt = NULL;
    person_t nobody = {.email = ""};
    user_jwt_t what = what_of(&nobody, NOW);

    what.expires_s = NOW + 5;
    what.session = NULL;
    cr_assert_eq(user_jwt_make(key, &what, &jwt), 0);
    cr_assert(verifies(key, NOW, jwt, &claims));
    cr_assert_eq(json_integer_value(json_object_get(claims, "exp")), NOW + 5);
    for (const char *const *name =
             (const char *const[]){"sid", "name", "email", "email_verified", "groups", NULL};
         *name; name++)
        cr_assert_null(json_object_get(claims, *name), "%s", *name);
    secret_key_destroy(&key);
}

Test(user_jwt, is_verified_in_the_period_of_its_key_and_in_those_beside_it)
{
    secret_key_t *key = key_of("period");
    _cleanup_(free_mem) char *jwt = NULL;
    person_t person = alice();
    user_jwt_t what = what_of(&person, NOW);

    cr_assert_eq(user_jwt_make(key, &what, &jwt), 0);
    cr_assert(verifies(key, NOW - USER_JWT_PERIOD_S, jwt, NULL), "a set that was kept");
    cr_assert(verifies(key, NOW + USER_JWT_PERIOD_S, jwt, NULL),
              "one made before the keys changed");
    cr_assert_not(verifies(key, NOW + 2 * USER_JWT_PERIOD_S, jwt, NULL));
    cr_assert_not(verifies(key, NOW - 2 * USER_JWT_PERIOD_S, jwt, NULL));
    json_decref(person.groups);
    secret_key_destroy(&key);
}

Test(user_jwt, another_master_key_or_another_word_is_refused)
{
    secret_key_t *key = key_of("one"), *other = key_of("other");
    _cleanup_(free_mem) char *jwt = NULL;
    person_t person = alice();
    user_jwt_t what = what_of(&person, NOW);

    cr_assert_eq(user_jwt_make(key, &what, &jwt), 0);
    cr_assert_not(verifies(other, NOW, jwt, NULL));
    for (char *at = strchr(jwt, '.') + 1; *at; at += 37) { /* claims and signature */
        char before = *at;

        if (before == '.')
            continue;
        *at = before == 'A' ? 'B' : 'A';
        {
            oidc_token_t token = {0};
            bool reads = !oidc_token_read(&token, jwt, NULL);

            oidc_token_done(&token);
            cr_assert(!reads || !verifies(key, NOW, jwt, NULL), "at %zu", (size_t)(at - jwt));
        }
        *at = before;
    }
    cr_assert(verifies(key, NOW, jwt, NULL));
    json_decref(person.groups);
    secret_key_destroy(&key);
    secret_key_destroy(&other);
}

Test(user_jwt, groups_that_would_make_it_too_long_are_left_out_and_never_half)
{
    secret_key_t *key = key_of("long");
    person_t person = alice();

    for (int groups = 1; groups < 200; groups += 7) {
        _cleanup_(json_clear_ref) json_t *claims = NULL;
        _cleanup_(free_mem) char *jwt = NULL;
        user_jwt_t what = what_of(&person, NOW);
        const json_t *told;

        json_array_clear(person.groups);
        for (int i = 0; i < groups; i++)
            json_array_append_new(person.groups, json_sprintf("a group with a name, %d", i));
        cr_assert_eq(user_jwt_make(key, &what, &jwt), 0);
        cr_assert_leq(strlen(jwt), (size_t)USER_JWT_MAX);
        cr_assert(verifies(key, NOW, jwt, &claims));
        told = json_object_get(claims, "groups");
        cr_assert(groups > 150 ? !told : groups > 50 || json_equal(told, person.groups));
        cr_assert(!told || json_equal(told, person.groups));
    }
    json_decref(person.groups);
    secret_key_destroy(&key);
}
