/* Keys of webhook signers that a worker has, and those that it has fetched. Time is set. */
#include "services/edge/control/signers.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <openssl/rsa.h>
#include <openssl/x509.h>
#include <string.h>

enum { NOW_S = 1700000000 };

typedef struct world {
    signers_t *signers;
    signer_ask_t asks[200];
    size_t count;
    bool is_cut; /* questions do not go */
    int64_t now_ms;
    EVP_PKEY *pair;
} world_t;

typedef struct request {
    signers_waiter_t waiter;
    unsigned woken;
} request_t;

static bool send_ask(void *context, const signer_ask_t *ask)
{
    world_t *world = context;

    if (world->is_cut)
        return false;
    world->asks[world->count++] = *ask;
    return true;
}

static void wake(signers_waiter_t *waiter)
{
    ((request_t *)waiter)->woken++;
}

static void begin(world_t *world)
{
    static const signers_ports_t ports = {send_ask};

    *world = (world_t){.signers = signers_new(&ports, world), .now_ms = 1000};
    world->pair = EVP_RSA_gen(2048);
}

static void end(world_t *world)
{
    signers_destroy(&world->signers);
    EVP_PKEY_free(world->pair);
}

static signers_state_t look_for(world_t *world, const signers_who_t *whose, const char *url,
                                request_t *request)
{
    static request_t nobody;
    EVP_PKEY *key = NULL;
    request_t *who = request ? request : &nobody;
    signers_state_t state;

    who->waiter.wake = wake;
    state = signers_look(world->signers, whose, url, world->now_ms, NOW_S + world->now_ms / 1000,
                         &who->waiter, &key);
    cr_assert_eq(key != NULL, state == SIGNERS_KEY);
    if (!request)
        signers_leave(&nobody.waiter);
    return state;
}

static signers_state_t look(world_t *world, const char *account, const char *url,
                            request_t *request)
{
    return look_for(world, &(signers_who_t){.account = account}, url, request);
}

static void answer(world_t *world, uint64_t number, signer_outcome_t outcome)
{
    signer_told_t told;

    signer_told_init(&told, number, outcome, "");
    if (outcome == SIGNER_KEY) {
        unsigned char *at = told.key;

        told.key_len = (uint32_t)i2d_PUBKEY(world->pair, &at);
        told.until_s = NOW_S + 30 * 24 * 3600;
    }
    signers_take(world->signers, &told, world->now_ms);
}

static const char *url_of(unsigned n)
{
    static char url[64];

    snprintf(url, sizeof(url), "https://sns.us-east-1.amazonaws.com/%u.pem", n);
    return url;
}

Test(signers, a_key_is_fetched_once_for_all_who_wait)
{
    world_t world;
    request_t requests[3] = {0};

    begin(&world);
    for (int i = 0; i < 3; i++)
        cr_assert_eq(look(&world, "a", url_of(1), &requests[i]), SIGNERS_WAIT);
    cr_assert_eq(world.count, 1);
    signers_leave(&requests[1].waiter);
    signers_leave(&requests[1].waiter);
    answer(&world, world.asks[0].number, SIGNER_KEY);
    cr_assert(requests[0].woken == 1 && !requests[1].woken && requests[2].woken == 1);
    cr_assert_eq(look(&world, "b", url_of(1), NULL), SIGNERS_KEY);
    answer(&world, world.asks[0].number, SIGNER_REFUSED);
    cr_assert_eq(look(&world, "b", url_of(1), NULL), SIGNERS_KEY, "nobody asked");
    cr_assert_eq(world.count, 1);
    end(&world);
}

Test(signers, a_url_without_a_key_is_remembered_for_a_short_time)
{
    static const struct {
        signer_outcome_t outcome;
        signers_state_t state;
        int64_t ms;
    } cases[] = {{SIGNER_REFUSED, SIGNERS_REFUSED, SIGNERS_REFUSED_MS},
                 {SIGNER_LATER, SIGNERS_LATER, SIGNERS_LATER_MS}};
    world_t world;

    begin(&world);
    for (unsigned i = 0; i < 2; i++) {
        request_t request = {0};

        cr_assert_eq(look(&world, "a", url_of(i), &request), SIGNERS_WAIT);
        answer(&world, world.asks[world.count - 1].number, cases[i].outcome);
        cr_assert_eq(request.woken, 1);
        cr_assert_eq(look(&world, "a", url_of(i), NULL), cases[i].state);
        world.now_ms += cases[i].ms - 1;
        cr_assert_eq(look(&world, "a", url_of(i), NULL), cases[i].state);
        world.now_ms += 1;
        cr_assert_eq(look(&world, "a", url_of(i), NULL), SIGNERS_WAIT);
        answer(&world, world.asks[world.count - 1].number, SIGNER_KEY);
        cr_assert_eq(look(&world, "a", url_of(i), NULL), SIGNERS_KEY);
    }
    cr_assert_eq(world.count, 4);
    end(&world);
}

Test(signers, an_account_has_few_fetches_under_way_and_all_have_a_bound)
{
    world_t world;
    unsigned n = 0;

    begin(&world);
    for (; n < SIGNERS_ACCOUNT_MAX; n++)
        cr_assert_eq(look(&world, "a", url_of(n), NULL), SIGNERS_WAIT);
    cr_assert_eq(look(&world, "a", url_of(n), NULL), SIGNERS_LATER);
    cr_assert_eq(look(&world, "b", url_of(n++), NULL), SIGNERS_WAIT);
    for (; n < SIGNERS_FETCHES_MAX; n++) {
        char account[8];

        snprintf(account, sizeof(account), "c%u", n);
        cr_assert_eq(look(&world, account, url_of(n), NULL), SIGNERS_WAIT);
    }
    cr_assert_eq(look(&world, "d", url_of(n), NULL), SIGNERS_LATER);
    cr_assert_eq(world.count, SIGNERS_FETCHES_MAX);
    answer(&world, world.asks[0].number, SIGNER_LATER);
    cr_assert_eq(look(&world, "a", url_of(n), NULL), SIGNERS_LATER, "it is left to others");
    cr_assert_eq(look(&world, "e", url_of(n), NULL), SIGNERS_WAIT);
    end(&world);
}

Test(signers, a_client_of_many_accounts_leaves_fetches_to_others)
{
    world_t world;
    unsigned n = 0, waits = 0;

    begin(&world);
    for (; n < SIGNERS_FETCHES_MAX; n++) {
        char account[8];

        snprintf(account, sizeof(account), "c%u", n / SIGNERS_ACCOUNT_MAX);
        waits +=
            look_for(&world, &(signers_who_t){account, 7, 100}, url_of(n), NULL) == SIGNERS_WAIT;
    }
    cr_assert(waits > SIGNERS_ACCOUNT_MAX && waits < SIGNERS_FETCHES_MAX / 2, "%u", waits);
    for (; waits < SIGNERS_FETCHES_MAX; waits++, n++) {
        char account[8];

        snprintf(account, sizeof(account), "d%u", n);
        cr_assert_eq(look_for(&world, &(signers_who_t){account, n, 100}, url_of(n), NULL),
                     SIGNERS_WAIT, "somebody else's");
    }
    answer(&world, world.asks[0].number, SIGNER_LATER);
    cr_assert_eq(look_for(&world, &(signers_who_t){"e", 7, 100}, url_of(n), NULL), SIGNERS_LATER);
    cr_assert_eq(look_for(&world, &(signers_who_t){"e", 8, 100}, url_of(n), NULL), SIGNERS_WAIT);
    end(&world);
}

Test(signers, a_network_of_many_clients_leaves_fetches_to_others)
{
    world_t world;
    unsigned waits = 0;

    begin(&world);
    for (unsigned n = 0; n < SIGNERS_FETCHES_MAX; n++) {
        char account[8];

        snprintf(account, sizeof(account), "c%u", n);
        waits += look_for(&world, &(signers_who_t){account, 1 << 16 | n, 100}, url_of(n), NULL)
                 == SIGNERS_WAIT;
    }
    cr_assert_eq(waits, SIGNERS_FETCHES_MAX / 2);
    cr_assert_eq(look_for(&world, &(signers_who_t){"d", 2 << 16 | 1, 100}, url_of(99), NULL),
                 SIGNERS_WAIT);
    end(&world);
}

Test(signers, a_client_leaves_fetches_to_others_of_its_account)
{
    world_t world;
    unsigned n = 0, waits = 0;

    begin(&world);
    for (; n < 2 * SIGNERS_ACCOUNT_MAX; n++)
        waits += look_for(&world, &(signers_who_t){"a", 7, 100}, url_of(n), NULL) == SIGNERS_WAIT;
    cr_assert_eq(waits, SIGNERS_ACCOUNT_MAX / 2);
    cr_assert_eq(look_for(&world, &(signers_who_t){"a", 8, 100}, url_of(n), NULL), SIGNERS_WAIT);
    end(&world);
}

Test(signers, four_accounts_of_many_clients_leave_fetches_to_others)
{
    world_t world;
    unsigned waits = 0;

    begin(&world);
    for (unsigned n = 0; n < 2 * SIGNERS_FETCHES_MAX; n++) {
        char account[8];

        snprintf(account, sizeof(account), "c%u", n % 4);
        waits += look_for(&world, &(signers_who_t){account, 1 + n, 100}, url_of(n), NULL)
                 == SIGNERS_WAIT;
    }
    cr_assert(waits >= SIGNERS_FETCHES_MAX / 2 && waits < SIGNERS_FETCHES_MAX, "%u", waits);
    cr_assert_eq(look_for(&world, &(signers_who_t){"e", 99, 100}, url_of(99), NULL), SIGNERS_WAIT);
    end(&world);
}

Test(signers, what_strangers_name_takes_no_place_of_a_key)
{
    world_t world;

    begin(&world);
    look(&world, "a", url_of(0), NULL);
    answer(&world, world.asks[0].number, SIGNER_KEY);
    for (unsigned n = 1; n <= 3 * SIGNERS_REMEMBERED_MAX / 2; n++) {
        cr_assert_eq(look(&world, "a", url_of(n), NULL), SIGNERS_WAIT);
        answer(&world, world.asks[world.count - 1].number, SIGNER_REFUSED);
    }
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    end(&world);
}

Test(signers, the_key_that_was_used_the_longest_ago_makes_room)
{
    world_t world;
    unsigned n = 0;

    begin(&world);
    for (; n < SIGNERS_KEYS_MAX; n++, world.now_ms++) {
        look(&world, "a", url_of(n), NULL);
        answer(&world, world.asks[world.count - 1].number, SIGNER_KEY);
    }
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    look(&world, "a", url_of(n), NULL);
    answer(&world, world.asks[world.count - 1].number, SIGNER_KEY);
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    cr_assert_eq(look(&world, "a", url_of(1), NULL), SIGNERS_WAIT);
    end(&world);
}

Test(signers, an_old_key_is_fetched_again_while_it_is_used_but_not_for_ever)
{
    world_t world;

    begin(&world);
    look(&world, "a", url_of(0), NULL);
    answer(&world, world.asks[0].number, SIGNER_KEY);
    world.now_ms += SIGNERS_FRESH_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    cr_assert_eq(world.count, 2);
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    cr_assert_eq(world.count, 2, "it is under way");
    answer(&world, world.asks[1].number, SIGNER_LATER);
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    world.now_ms += SIGNERS_LATER_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    answer(&world, world.asks[2].number, SIGNER_KEY);
    world.now_ms += SIGNERS_STALE_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_WAIT);
    answer(&world, world.asks[3].number, SIGNER_KEY);
    world.now_ms += SIGNERS_FRESH_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    answer(&world, world.asks[4].number, SIGNER_REFUSED);
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY, "it was good, and stays");
    world.now_ms += SIGNERS_REFUSED_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    cr_assert_eq(world.count, 6, "what lies there is asked for again");
    answer(&world, world.asks[5].number, SIGNER_REFUSED);
    world.now_ms += SIGNERS_STALE_MS - SIGNERS_FRESH_MS - SIGNERS_REFUSED_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_WAIT, "but not beyond its time");
    answer(&world, world.asks[6].number, SIGNER_REFUSED);
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_REFUSED);
    end(&world);
}

Test(signers, a_key_ends_with_its_certificate)
{
    world_t world;
    signer_told_t told;
    unsigned char *at = told.key;

    begin(&world);
    look(&world, "a", url_of(0), NULL);
    signer_told_init(&told, world.asks[0].number, SIGNER_KEY, "");
    told.key_len = (uint32_t)i2d_PUBKEY(world.pair, &at);
    told.until_s = NOW_S + world.now_ms / 1000 + 10;
    signers_take(world.signers, &told, world.now_ms);
    world.now_ms += 10000;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_KEY);
    world.now_ms += 1000;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_WAIT);
    end(&world);
}

Test(signers, an_answer_that_does_not_come_is_none)
{
    world_t world;
    request_t request = {0}, other = {0};

    begin(&world);
    cr_assert_eq(look(&world, "a", url_of(0), &request), SIGNERS_WAIT);
    world.now_ms += SIGNERS_WAIT_MS;
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_LATER);
    cr_assert_eq(request.woken, 1);
    answer(&world, world.asks[0].number, SIGNER_KEY);
    world.now_ms += SIGNERS_LATER_MS;
    cr_assert_eq(look(&world, "a", url_of(0), &other), SIGNERS_WAIT);
    cr_assert_eq(look(&world, "a", url_of(1), &request), SIGNERS_WAIT);
    answer(&world, 0, SIGNER_LATER); /* whom it was asked has gone */
    cr_assert(other.woken == 1 && request.woken == 2);
    world.is_cut = true;
    cr_assert_eq(look(&world, "a", url_of(2), NULL), SIGNERS_LATER);
    end(&world);
}

Test(signers, what_is_no_rsa_key_is_none)
{
    world_t world;
    EVP_PKEY *rsa;

    begin(&world);
    rsa = world.pair;
    world.pair = EVP_EC_gen("P-256");
    look(&world, "a", url_of(0), NULL);
    answer(&world, world.asks[0].number, SIGNER_KEY);
    cr_assert_eq(look(&world, "a", url_of(0), NULL), SIGNERS_REFUSED);
    EVP_PKEY_free(world.pair);
    world.pair = EVP_RSA_gen(1024);
    look(&world, "a", url_of(1), NULL);
    answer(&world, world.asks[1].number, SIGNER_KEY);
    cr_assert_eq(look(&world, "a", url_of(1), NULL), SIGNERS_REFUSED);
    EVP_PKEY_free(rsa);
    end(&world);
}
