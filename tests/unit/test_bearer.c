/* Service tokens at the edge: what is one, under which keys a cache has them, and that what is
 * refused takes no memory. */
#include "common/base/id.h"
#include "services/edge/modules/bearer.h"
#include "services/edge/modules/token_hash.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#define KSUID  "0123456789ABCDEFGHIJabcdefg"
#define SECRET "abcdefghijklmnopqrstu"
#define TOKEN  "postern_" KSUID "_" SECRET

typedef struct {
    char value[128];
    int is; /* -1: somebody else's, 0: none that can be, 1: a token */
} value_case_t;

ParameterizedTestParameters(bearer, token)
{
    static value_case_t cases[] = {
        {"Bearer " TOKEN, 1},
        {"bearer " TOKEN, 1},
        {"BEARER   " TOKEN "  ", 1},
        {"Bearer " TOKEN "x", 0},
        {"Bearer postern_", 0},
        {"Bearer postern_" KSUID "_" SECRET " " TOKEN, 0},
        {"Bearer postern_" KSUID "-" SECRET, 0},
        {"Bearer postern_" KSUID "_abcdefghijklmnopqrst.", 0},
        {"Bearer postern_" KSUID "_abcdefghijklmnopqrst_", 0},
        {"Bearer Postern_" KSUID "_" SECRET, -1},
        {"Bearer eyJhbGciOiJub25lIn0.e30.", -1},
        {"Basic " TOKEN, -1},
        {"Bearers " TOKEN, -1},
        {"Bearer\t" TOKEN, 0},
        {"Bearer \t" TOKEN, 0},
        {"bearer\xc2\xa0" TOKEN, 0},
        {"Bearer," TOKEN, 0},
        {"Bearer\t", 0},
        {"Bearer", -1},
        {"Bearer ", -1},
        {TOKEN, -1},
        {"", -1},
    };

    return cr_make_param_array(value_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(value_case_t *one, bearer, token)
{
    bearer_text_t text = bearer_token(one->value, strlen(one->value));

    cr_assert_eq(text.at != NULL, one->is >= 0, "%s", one->value);
    cr_assert_eq(text.len != 0, one->is == 1, "%s", one->value);
    if (one->is == 1)
        cr_assert_eq(memcmp(text.at, TOKEN, text.len), 0);
    cr_assert_eq((int)BEARER_TOKEN_LEN, 8 + KSUID_LEN + 1 + TOKEN_SECRET_LEN);
}

ParameterizedTestParameters(bearer, jwt)
{
    static value_case_t cases[] = {
        {"Bearer a.b.c", 1},
        {"Bearer\ta.b.c", 0},
        {"Bearer \ta.b.c", 0},
        {"Bearer\v a.b.c", 0},
        {"Bearer=a.b.c", 0},
        {"bearer   eyJhbGciOiJub25lIn0.e30.-_09  ", 1},
        {"Bearer " TOKEN, 0},
        {"Bearer eyJhbGciOiJub25lIn0.e30.", 0},
        {"Bearer a.b", 0},
        {"Bearer a.b.c.d", 0},
        {"Bearer a.b.c.d.e", 0},
        {"Bearer .b.c", 0},
        {"Bearer a..c", 0},
        {"Bearer a.b.c, Bearer a.b.c", 0},
        {"Bearer a.b c.d", 0},
        {"Bearer a.b.c=", 0},
        {"Bearer a.b.\xc3\xa9", 0},
        {"Bearer opaque", 0},
        {"Bearer ", 0},
        {"Bearer", 0},
        {"DPoP a.b.c", -1},
        {"a.b.c", -1},
        {"", -1},
    };

    return cr_make_param_array(value_case_t, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(value_case_t *one, bearer, jwt)
{
    bearer_text_t text = bearer_jwt(one->value, strlen(one->value));

    cr_assert_eq(text.at != NULL, one->is >= 0, "%s", one->value);
    cr_assert_eq(text.len != 0, one->is == 1, "%s", one->value);
}

Test(bearer, a_jwt_has_8_kib_at_most)
{
    char value[7 + BEARER_JWT_MAX + 1];

    memset(value, 'a', sizeof(value));
    memcpy(value, "Bearer a.b.", 11);
    cr_assert_eq(bearer_jwt(value, sizeof(value) - 1).len, (size_t)BEARER_JWT_MAX);
    cr_assert_eq(bearer_jwt(value, sizeof(value)).len, 0);
    cr_assert_not_null(bearer_jwt(value, sizeof(value)).at);
}

static void fill(unsigned char *out, size_t len, unsigned seed)
{
    for (size_t i = 0; i < len; i++)
        out[i] = (unsigned char)(seed = seed * 1103515245 + 12345, seed >> 16);
}

static void put(sessions_t *sessions, const unsigned char *key)
{
    session_t session = {.generation = sessions_generation(sessions, key)};
    const char *texts[SESSION_TEXTS] = {"svctok_1", "svctok_1", "ci", "", "", ""};
    const size_t lens[SESSION_TEXTS] = {8, 8, 2, 0, 0, 0};

    memcpy(session.hash, key, sizeof(session.hash));
    cr_assert(session_set_texts(&session, texts, lens));
    cr_assert(sessions_put(sessions, &session));
}

Test(bearer, a_token_has_a_key_for_each_route_and_all_end_with_it)
{
    enum { BYTES = 1 << 20, ROUTES = 20 };
    const unsigned char secret[SESSION_SECRET_BYTES] = {1};
    sessions_t *sessions = sessions_init(calloc(1, SESSIONS_HEAD_BYTES + BYTES), BYTES, secret);
    unsigned char hash[2][SESSION_HASH_BYTES], bound[SESSION_BOUND_BYTES];
    unsigned char keys[2][ROUTES][SESSION_HASH_BYTES];
    session_t found;

    for (unsigned t = 0; t < 2; t++) {
        fill(hash[t], sizeof(hash[t]), 77 + t);
        for (unsigned i = 0; i < ROUTES; i++) {
            fill(bound, sizeof(bound), i);
            bearer_key(hash[t], bound, keys[t][i]);
            put(sessions, keys[t][i]);
        }
    }
    for (int i = 0; i < ROUTES; i++)
        for (int k = 0; k < i; k++)
            cr_assert_neq(memcmp(keys[0][i], keys[0][k], SESSION_HASH_BYTES), 0);
    sessions_end(sessions, hash[0]);
    for (int i = 0; i < ROUTES; i++) {
        cr_assert_not(sessions_find(sessions, keys[0][i], &found), "route %d", i);
        cr_assert(sessions_find(sessions, keys[1][i], &found), "another token's");
    }
    free(sessions);
}

Test(bearer, what_was_refused_is_so_for_a_moment_and_not_after_a_change)
{
    static bearer_refused_t refused;
    unsigned char key[SESSION_HASH_BYTES], other[SESSION_HASH_BYTES];

    fill(key, sizeof(key), 1);
    memcpy(other, key, sizeof(other));
    other[31] ^= 1;
    cr_assert_eq(bearer_refusal(&refused, key, 0, 0), 0);
    bearer_refuse(&refused, key, 7, 238, 100);
    cr_assert_eq(bearer_refusal(&refused, key, 7, 99), 238);
    cr_assert_eq(bearer_refusal(&refused, key, 7, 100), 0);
    cr_assert_eq(bearer_refusal(&refused, key, 8, 99), 0, "its scope may be another by now");
    cr_assert_eq(bearer_refusal(&refused, other, 7, 99), 0);
    bearer_refuse(&refused, other, 7, 238, 100);
    cr_assert_eq(bearer_refusal(&refused, key, 7, 99), 0, "it was displaced, and is asked for");
    for (unsigned i = 0; i < 100000; i++) {
        fill(other, sizeof(other), i);
        bearer_refuse(&refused, other, 7, 238, 100);
    }
    cr_assert_eq(bearer_refusal(&refused, other, 7, 99), 238);
}

/* Of one block, of two, and where the end of the token has a block of its own. */
Test(token_hash, is_the_sha_256_of_the_token)
{
    unsigned char token[200], out[SESSION_HASH_BYTES], want[crypto_hash_sha256_BYTES];

    for (size_t i = 0; i < sizeof(token); i++)
        token[i] = (unsigned char)(i * 31 + 7);
    for (size_t len = 0; len <= sizeof(token); len++) {
        crypto_hash_sha256(want, token, len);
        cr_assert(token_hash(token, len, out));
        cr_assert_arr_eq(out, want, sizeof(want), "%zu", len);
    }
}
