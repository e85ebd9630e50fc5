/* A provider that changes its keys while many come at once: who fetches the new ones, who waits for
 * them, and what is said where they cannot be had. */
#include "common/base/cleanup.h"
#include "services/identity/oidc_internal.h"
#include "tests/unit/oidc_op.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#define A_PROVIDER _cleanup_(op_destroy) op_t *op = a_provider()

enum { CROWD = 12 };

/* Flows that are between two steps, each with its own token. */
typedef struct crowd {
    op_t *op;
    void *flows[CROWD];
    fetch_t wants[CROWD];
} crowd_t;

static op_t *a_provider(void)
{
    op_t *op = op_new("ES256");

    op_set(op->config, "bearer_audiences", json_pack("[s]", OP_CLIENT));
    return op;
}

/* Who comes next brings a token of this key. */
static void bring(op_t *op, EVP_PKEY *key, const char *kid, provider_operation_t operation)
{
    json_t *claims = json_pack("{s:s, s:s, s:s, s:I, s:I, s:s}", "iss", OP_ISSUER, "aud", OP_CLIENT,
                               "sub", "alice", "exp", (json_int_t)op->now_s + 60, "iat",
                               (json_int_t)op->now_s, "jti", "j1");
    char *token;

    if (operation == PROVIDER_ENDED)
        json_object_set_new(
            claims, "events",
            json_pack("{s:{}}", "http://schemas.openid.net/event/backchannel-logout"));
    op_set(op->header, "kid", kid ? json_string(kid) : NULL);
    token = op_sign(key, op->alg, op->header, claims);
    json_decref(op->params);
    op->params =
        json_pack("{s:[s]}", operation == PROVIDER_ENDED ? "logout_token" : "bearer_token", token);
    free(token);
    json_decref(claims);
}

static provider_step_t comes(op_t *op, EVP_PKEY *key, const char *kid)
{
    bring(op, key, kid, PROVIDER_ENDED);
    return op_run(op, PROVIDER_ENDED, NULL);
}

/* Those that may come at once, by key ids that nobody has. */
static void use_up_fetches(op_t *op)
{
    char kid[16];

    for (int i = 0; i < PROVIDER_CACHE_SPARE; i++) {
        snprintf(kid, sizeof(kid), "made-up-%d", i);
        cr_assert_eq(comes(op, op->key, kid), PROVIDER_INVALID, "%s", op->why);
    }
    cr_assert_eq(comes(op, op->key, "made-up"), PROVIDER_UNAVAILABLE, "%s", op->why);
}

/* The provider signs with a new key, and has that one alone. */
static void change_keys(op_t *op, const char *kid)
{
    EVP_PKEY_free(op->key);
    op->key = op_key(op->alg);
    json_decref(op->documents[OP_KEYS]);
    op->documents[OP_KEYS] = json_pack("{s:[o]}", "keys", op_jwk(op->key, op->alg, kid));
}

/* All come, and nobody is answered: the step that each of them is at. */
static provider_step_t crowd_comes(crowd_t *self, provider_operation_t operation, size_t i)
{
    self->wants[i] = (fetch_t){0};
    self->flows[i] = op_start(self->op, operation);
    return op_step(self->op, self->flows[i], &self->wants[i]);
}

static void crowd_done(crowd_t *self)
{
    for (size_t i = 0; i < CROWD; i++)
        if (self->flows[i])
            provider_oidc.free(&self->flows[i]);
}

static const char *why(const crowd_t *self, size_t i)
{
    return provider_oidc.why(self->flows[i]);
}

static void all_are_heard(provider_operation_t operation)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};

    bring(op, op->key, "k1", operation);
    cr_assert_eq(op_run(op, operation, NULL), PROVIDER_DONE, "%s", op->why);
    change_keys(op, "k2");
    bring(op, op->key, "k2", operation);
    for (size_t i = 0; i < CROWD; i++)
        cr_assert_eq(crowd_comes(&crowd, operation, i), PROVIDER_FETCH, "flow %zu: %s", i,
                     why(&crowd, i));
    for (size_t i = CROWD; i-- > 0;) {
        cr_assert(strstr(crowd.wants[i].url, "/keys"), "%s", crowd.wants[i].url);
        cr_assert_eq(op_step(op, crowd.flows[i], &crowd.wants[i]), PROVIDER_DONE, "flow %zu: %s", i,
                     why(&crowd, i));
    }
}

Test(oidc_keys, all_that_come_while_new_keys_are_fetched_wait_for_them)
{
    all_are_heard(PROVIDER_ENDED);
    all_are_heard(PROVIDER_BEARER);
}

Test(oidc_keys, all_sign_ins_that_come_back_while_new_keys_are_fetched_wait_for_them)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};

    op_set(op->documents[OP_METADATA], "userinfo_endpoint", NULL);
    cr_assert_eq(op_run(op, PROVIDER_CALLBACK, NULL), PROVIDER_DONE, "%s", op->why);
    change_keys(op, "k2");
    op_set(op->header, "kid", json_string("k2"));
    for (size_t i = 0; i < CROWD; i++) {
        cr_assert_eq(crowd_comes(&crowd, PROVIDER_CALLBACK, i), PROVIDER_FETCH);
        cr_assert_eq(op_step(op, crowd.flows[i], &crowd.wants[i]), PROVIDER_FETCH, "%s",
                     why(&crowd, i));
    }
    for (size_t i = 0; i < CROWD; i++)
        cr_assert_eq(op_step(op, crowd.flows[i], &crowd.wants[i]), PROVIDER_DONE, "flow %zu: %s", i,
                     why(&crowd, i));
}

Test(oidc_keys, once_the_fetch_is_over_nobody_is_asked_for_a_made_up_key_and_nobody_can_tell)
{
    A_PROVIDER;
    unsigned calls;

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    use_up_fetches(op);
    calls = op->calls[OP_KEYS];
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(comes(op, op->key, "made-up"), PROVIDER_UNAVAILABLE, "%s", op->why);
        cr_assert_eq(comes(op, op->key, NULL), PROVIDER_DONE, "%s", op->why);
    }
    cr_assert_eq(op->calls[OP_KEYS], calls);
    change_keys(op, "k2");
    cr_assert_eq(comes(op, op->key, "k2"), PROVIDER_UNAVAILABLE, "it may be sent again as it is");
    op->now_s += PROVIDER_CACHE_AGAIN_S;
    cr_assert_eq(comes(op, op->key, "k2"), PROVIDER_DONE, "%s", op->why);
    cr_assert_eq(op->calls[OP_KEYS], calls + 1);
}

Test(oidc_keys, a_made_up_key_a_minute_keeps_no_new_one_from_being_noticed)
{
    A_PROVIDER;
    char kid[16];

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(comes(op, op->key, "made-up"), PROVIDER_INVALID, "%s", op->why);
        snprintf(kid, sizeof(kid), "k%d", i + 2);
        change_keys(op, kid);
        cr_assert_eq(comes(op, op->key, kid), PROVIDER_DONE, "%s", op->why);
        op->now_s += 60;
    }
}

Test(oidc_keys, what_a_flow_could_not_tell_the_next_one_can)
{
    A_PROVIDER;
    void *flow;
    fetch_t want = {0};

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    use_up_fetches(op);
    change_keys(op, "k2");
    bring(op, op->key, "k2", PROVIDER_ENDED);
    flow = op_start(op, PROVIDER_ENDED);
    cr_assert_eq(op_step(op, flow, &want), PROVIDER_UNAVAILABLE);
    provider_oidc.free(&flow);
    op->now_s += PROVIDER_CACHE_AGAIN_S;
    op->status[OP_KEYS] = 503;
    flow = op_start(op, PROVIDER_ENDED);
    want = (fetch_t){0};
    cr_assert_eq(op_step(op, flow, &want), PROVIDER_FETCH);
    cr_assert_eq(op_step(op, flow, &want), PROVIDER_UNAVAILABLE);
    provider_oidc.free(&flow);
    op->status[OP_KEYS] = 200;
    op->now_s += (PROVIDER_CACHE_LEFT + 1) * PROVIDER_CACHE_AGAIN_S;
    cr_assert_eq(comes(op, op->key, "k2"), PROVIDER_DONE, "%s", op->why);
}

Test(oidc_keys, those_who_wait_for_a_fetch_that_brings_no_such_key_have_its_turns_among_them)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};
    unsigned calls;

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    bring(op, op->key, "made-up", PROVIDER_ENDED);
    for (size_t i = 0; i < CROWD; i++)
        cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, i), PROVIDER_FETCH);
    calls = op->calls[OP_KEYS];
    cr_assert_eq(op_step(op, crowd.flows[0], &crowd.wants[0]), PROVIDER_INVALID);
    for (size_t i = 1; i < CROWD; i++)
        cr_assert_eq(op_step(op, crowd.flows[i], &crowd.wants[i]), PROVIDER_FETCH, "flow %zu", i);
    for (size_t i = 1; i < CROWD; i++)
        cr_assert_eq(op_step(op, crowd.flows[i], &crowd.wants[i]),
                     i > 1 ? PROVIDER_UNAVAILABLE : PROVIDER_INVALID, "flow %zu: %s", i,
                     why(&crowd, i));
    cr_assert_eq(op->calls[OP_KEYS], calls + CROWD + CROWD - 1, "two requests, and none beyond");
}

Test(oidc_keys, who_waits_for_keys_that_were_asked_for_too_early_asks_by_itself)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};
    json_t *before;

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    op->now_s += PROVIDER_CACHE_LIFE_S;
    bring(op, op->key, "k1", PROVIDER_ENDED);
    cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, 0), PROVIDER_FETCH);
    cr_assert_eq(op_step(op, crowd.flows[0], &crowd.wants[0]), PROVIDER_FETCH, "metadata, too");
    before = json_deep_copy(op->documents[OP_KEYS]);
    change_keys(op, "k2");
    bring(op, op->key, "k2", PROVIDER_ENDED);
    cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, 1), PROVIDER_FETCH);
    json_object_update(op->documents[OP_KEYS], before);
    cr_assert_eq(op_step(op, crowd.flows[1], &crowd.wants[1]), PROVIDER_FETCH, "%s",
                 why(&crowd, 1));
    json_decref(op->documents[OP_KEYS]);
    op->documents[OP_KEYS] = json_pack("{s:[o]}", "keys", op_jwk(op->key, op->alg, "k2"));
    cr_assert_eq(op_step(op, crowd.flows[1], &crowd.wants[1]), PROVIDER_DONE, "%s", why(&crowd, 1));
    json_decref(before);
}

Test(oidc_keys, a_key_set_that_does_not_come_makes_no_token_wrong)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    change_keys(op, "k2");
    op->status[OP_KEYS] = 503;
    bring(op, op->key, "k2", PROVIDER_ENDED);
    for (size_t i = 0; i < CROWD; i++)
        cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, i), PROVIDER_FETCH);
    for (size_t i = 0; i < CROWD; i++)
        cr_assert_eq(op_step(op, crowd.flows[i], &crowd.wants[i]), PROVIDER_UNAVAILABLE,
                     "flow %zu: %s", i, why(&crowd, i));
    op->status[OP_KEYS] = 200;
    cr_assert_eq(comes(op, op->key, "k2"), PROVIDER_DONE, "%s", op->why);
}

Test(oidc_keys, a_wrong_signature_is_wrong_also_where_no_newer_keys_come)
{
    A_PROVIDER;
    EVP_PKEY *stranger = op_key("ES256");

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    op->status[OP_KEYS] = 503;
    bring(op, stranger, "k1", PROVIDER_BEARER);
    cr_assert_eq(op_run(op, PROVIDER_BEARER, NULL), PROVIDER_DENIED, "%s", op->why);
    cr_assert(strstr(op->why, "its signature is wrong"), "%s", op->why);
    cr_assert_eq(op->calls[OP_KEYS], 2);
    EVP_PKEY_free(stranger);
}

Test(oidc_keys, a_key_set_that_is_no_good_to_a_flow_weighs_nothing_while_a_newer_one_is_fetched)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};
    char large[100000];

    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    op_set(op->documents[OP_KEYS], "padding", json_string(large));
    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    bring(op, op->key, "k2", PROVIDER_ENDED);
    cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, 0), PROVIDER_FETCH);
    cr_assert_lt(provider_oidc.weight(crowd.flows[0]), sizeof(large));
    op->now_s += PROVIDER_CACHE_LIFE_S;
    bring(op, op->key, "k1", PROVIDER_ENDED);
    cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, 1), PROVIDER_FETCH, "metadata, too");
    cr_assert_eq(op_step(op, crowd.flows[1], &crowd.wants[1]), PROVIDER_FETCH);
    cr_assert_gt(provider_oidc.weight(crowd.flows[1]), sizeof(large),
                 "one that is old serves if the provider does not answer");
}

Test(oidc_keys, a_fetch_whose_flow_is_gone_is_awaited_while_others_wait_for_its_answer)
{
    A_PROVIDER;
    _cleanup_(crowd_done) crowd_t crowd = {.op = op};

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    change_keys(op, "k2");
    bring(op, op->key, "k2", PROVIDER_ENDED);
    for (size_t i = 0; i < 3; i++)
        cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, i), PROVIDER_FETCH);
    provider_oidc.free(&crowd.flows[1]);
    cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, 1), PROVIDER_FETCH, "that one only waited");
    provider_oidc.free(&crowd.flows[0]);
    cr_assert_eq(crowd_comes(&crowd, PROVIDER_ENDED, 0), PROVIDER_FETCH, "%s", why(&crowd, 0));
    cr_assert_eq(op_step(op, crowd.flows[2], &crowd.wants[2]), PROVIDER_DONE, "%s", why(&crowd, 2));
    cr_assert_eq(op_step(op, crowd.flows[0], &crowd.wants[0]), PROVIDER_DONE, "%s", why(&crowd, 0));
}

Test(oidc_keys, rubbish_hides_a_key_that_was_changed_under_its_id_for_ten_seconds_at_most)
{
    A_PROVIDER;
    EVP_PKEY *stranger = op_key("ES256"), *former = op->key;

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    for (int i = 0; i < 100; i++) { /* as often as anybody likes */
        cr_assert_eq(comes(op, stranger, "k1"), PROVIDER_INVALID, "%s", op->why);
        op->now_s += i % 2;
    }
    cr_assert_leq(op->calls[OP_KEYS], 1 + 1 + 50 / PROVIDER_CACHE_WRONG_S);
    cr_assert_eq(comes(op, stranger, "k1"), PROVIDER_INVALID, "%s", op->why);
    op->key = op_key("ES256");
    json_decref(op->documents[OP_KEYS]);
    op->documents[OP_KEYS] = json_pack("{s:[o]}", "keys", op_jwk(op->key, op->alg, "k1"));
    op->now_s += PROVIDER_CACHE_WRONG_S;
    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    cr_assert_eq(comes(op, former, "k1"), PROVIDER_INVALID, "%s", op->why);
    EVP_PKEY_free(stranger);
    EVP_PKEY_free(former);
}

Test(oidc_keys, a_wrong_signature_uses_up_no_turn_of_keys_that_are_new)
{
    A_PROVIDER;
    EVP_PKEY *stranger = op_key("ES256");

    cr_assert_eq(comes(op, op->key, "k1"), PROVIDER_DONE, "%s", op->why);
    for (int i = 0; i < 5; i++) {
        cr_assert_eq(comes(op, stranger, "k1"), PROVIDER_INVALID, "%s", op->why);
        cr_assert(strstr(op->why, "its signature is wrong"), "%s", op->why);
    }
    cr_assert_eq(op->calls[OP_KEYS], 2, "one at once");
    change_keys(op, "k2");
    cr_assert_eq(comes(op, op->key, "k2"), PROVIDER_DONE, "%s", op->why);
    cr_assert_eq(op->calls[OP_KEYS], 3);
    cr_assert_eq(comes(op, stranger, "k2"), PROVIDER_INVALID);
    bring(op, stranger, "k2", PROVIDER_BEARER);
    cr_assert_eq(op_run(op, PROVIDER_BEARER, NULL), PROVIDER_DENIED, "%s", op->why);
    cr_assert_eq(op->calls[OP_KEYS], 4, "programs' is their own");
    EVP_PKEY_free(stranger);
}
