/* Documents of providers: how long they are kept, who fetches them, what makes room. */
#include "services/identity/provider_cache.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

enum { NOW_S = 1000000 };

static provider_cached_t find(provider_cache_t *cache, const char *name, int64_t now_s)
{
    _cleanup_(free_mem) char *text = NULL;
    size_t len = 0;
    provider_cached_t state = provider_cache_find(cache, "ac_1", "keys", name, now_s, &text, &len);

    cr_assert_eq(text != NULL, state != PROVIDER_CACHE_NONE);
    if (text)
        cr_assert_str_eq(text, name);
    return state;
}

static void put(provider_cache_t *cache, const char *name, int64_t now_s)
{
    provider_cache_put(cache, "ac_1", "keys", name, name, strlen(name), "max-age=100", now_s);
}

Test(provider_cache, lives_as_long_as_the_answer_says_within_bounds)
{
    static const struct {
        const char *header;
        int64_t life_s;
    } cases[] = {{NULL, 3600},
                 {"", 3600},
                 {"public", 3600},
                 {"max-age=100", 100},
                 {"public, max-age=100, must-revalidate", 100},
                 {"Max-Age=\"100\"", 100},
                 {"max-age=1", 60},
                 {"max-age=", 60},
                 {"max-age=-5", 60},
                 {"max-age=99999999999999999999999999", 86400},
                 {"no-store, max-age=100", 60},
                 {"max-age=100,no-cache", 60},
                 {"s-maxage=5", 3600},
                 {"xmax-age=5", 3600},
                 {",,, ,", 3600}};

    for (size_t i = 0; i < LEN(cases); i++)
        cr_assert_eq(provider_cache_life_s(cases[i].header), cases[i].life_s, "%s",
                     cases[i].header);
}

Test(provider_cache, one_fetches_anew_while_the_others_go_on)
{
    provider_cache_t *cache = provider_cache_new(4, 10000);

    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_NONE);
    put(cache, "a", NOW_S);
    cr_assert_eq(find(cache, "a", NOW_S + 99), PROVIDER_CACHE_FRESH);
    cr_assert_eq(find(cache, "a", NOW_S + 100), PROVIDER_CACHE_STALE);
    cr_assert_eq(find(cache, "a", NOW_S + 100), PROVIDER_CACHE_FRESH);
    cr_assert_eq(find(cache, "a", NOW_S + 129), PROVIDER_CACHE_FRESH);
    cr_assert_eq(find(cache, "a", NOW_S + 130), PROVIDER_CACHE_STALE);
    put(cache, "a", NOW_S + 130);
    cr_assert_eq(find(cache, "a", NOW_S + 229), PROVIDER_CACHE_FRESH);
    cr_assert_eq(find(cache, "a", NOW_S + 230 + PROVIDER_CACHE_KEPT_S), PROVIDER_CACHE_NONE);
    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_FRESH, "a clock that was set back");
    provider_cache_destroy(&cache);
}

Test(provider_cache, what_was_used_longest_ago_makes_room)
{
    provider_cache_t *cache = provider_cache_new(2, 10000);
    char large[9000];

    put(cache, "a", NOW_S);
    put(cache, "b", NOW_S);
    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_FRESH);
    put(cache, "c", NOW_S);
    cr_assert_eq(find(cache, "b", NOW_S), PROVIDER_CACHE_NONE);
    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_FRESH);
    memset(large, 'x', sizeof(large) - 1);
    large[sizeof(large) - 1] = '\0';
    provider_cache_put(cache, "ac_1", "keys", "d", large, 8999, NULL, NOW_S);
    provider_cache_put(cache, "ac_1", "keys", "e", large, 8999, NULL, NOW_S);
    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_NONE);
    cr_assert_eq(find(cache, "d", NOW_S), PROVIDER_CACHE_NONE);
    provider_cache_put(cache, "ac_1", "metadata", large, large, 8999, NULL, NOW_S);
    cr_assert_eq(find(cache, large, NOW_S), PROVIDER_CACHE_NONE, "larger than all");
    provider_cache_destroy(&cache);
}

/* Is a fetch out of turn this flow's? It is over at once. */
static bool again(provider_cache_t *cache, const char *account, provider_asker_t asker,
                  const char *name, int64_t now_s)
{
    const provider_wanted_t wanted = {
        .account = account, .kind = "keys", .name = name, .asker = asker};
    uint64_t fetch;
    provider_again_t may = provider_cache_again(cache, &wanted, now_s, &fetch);

    provider_cache_end(cache, fetch);
    return may == PROVIDER_AGAIN_FETCH;
}

static void *use(void *arg)
{
    char name[16];

    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "%d", i % 7);
        if (find(arg, name, NOW_S + i) != PROVIDER_CACHE_FRESH)
            put(arg, name, NOW_S + i);
        again(arg, "ac_1", PROVIDER_ASKER_SIGN_IN, name, NOW_S + i);
    }
    return NULL;
}

Test(provider_cache, is_shared_by_threads)
{
    provider_cache_t *cache = provider_cache_new(4, 600);
    pthread_t threads[4];

    for (size_t i = 0; i < LEN(threads); i++)
        pthread_create(&threads[i], NULL, use, cache);
    for (size_t i = 0; i < LEN(threads); i++)
        pthread_join(threads[i], NULL);
    provider_cache_destroy(&cache);
}

/* One of several accounts: its document of that name. */
static void put_of(provider_cache_t *cache, const char *account, const char *name)
{
    provider_cache_put(cache, account, "keys", name, name, strlen(name), NULL, NOW_S);
}

static bool has(provider_cache_t *cache, const char *account, const char *name)
{
    size_t len = 0;
    char *text = NULL;
    provider_cached_t state = provider_cache_find(cache, account, "keys", name, NOW_S, &text, &len);

    free(text);
    return state != PROVIDER_CACHE_NONE;
}

Test(provider_cache, an_account_of_many_issuers_throws_out_its_own_documents_alone)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    char name[16];

    put_of(cache, "ac_few", "https://idp.example");
    put_of(cache, "ac_many", "https://shared.example");
    cr_assert(has(cache, "ac_other", "https://shared.example"));
    for (int i = 0; i < 1000; i++) {
        snprintf(name, sizeof(name), "many/%d", i);
        put_of(cache, "ac_many", name);
    }
    cr_assert(has(cache, "ac_few", "https://idp.example"));
    cr_assert(has(cache, "ac_other", "https://shared.example"),
              "others use it, so it is not theirs");
    cr_assert(has(cache, "ac_many", "many/999"), "all of the rest is for whoever needs it");
    cr_assert(has(cache, "ac_many", "many/994"));
    cr_assert_not(has(cache, "ac_many", "many/993"));
    provider_cache_destroy(&cache);
}

Test(provider_cache, an_account_of_large_documents_throws_out_its_own_alone)
{
    provider_cache_t *cache = provider_cache_new(100, 100000);
    char name[16], large[9000];

    memset(large, 'x', sizeof(large));
    put_of(cache, "ac_few", "https://idp.example");
    for (int i = 0; i < 50; i++) {
        snprintf(name, sizeof(name), "many/%d", i);
        provider_cache_put(cache, "ac_many", "keys", name, large, sizeof(large), NULL, NOW_S);
    }
    cr_assert(has(cache, "ac_few", "https://idp.example"));
    cr_assert(has(cache, "ac_many", "many/49"));
    provider_cache_destroy(&cache);
}

Test(provider_cache, each_account_and_asker_has_a_fetch_out_of_turn_of_its_own)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    static const struct {
        const char *account, *name;
        provider_asker_t asker;
        int at_s;
        bool may;
    } cases[] = {
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 0, true},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 59, false},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, -1, false}, /* it began before, and came here later */
        {"ac_b", "k", PROVIDER_ASKER_LOGOUT, 59, true},
        {"ac_a", "other", PROVIDER_ASKER_LOGOUT, 59, true},
        {"ac_a", "k", PROVIDER_ASKER_BEARER, 59, true},
        {"ac_a", "k", PROVIDER_ASKER_SIGN_IN, 59, true},
        {"ac_a", "k", PROVIDER_ASKER_SIGN_IN, 118, false},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 60, true},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 61, false},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, -600, true},
    };

    put(cache, "k", NOW_S);
    for (size_t i = 0; i < LEN(cases); i++)
        cr_assert_eq(
            again(cache, cases[i].account, cases[i].asker, cases[i].name, NOW_S + cases[i].at_s),
            cases[i].may, "case %zu", i);
    provider_cache_destroy(&cache);
}

Test(provider_cache, what_the_document_contradicts_has_turns_of_its_own_that_are_rarer)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    static const struct {
        provider_doubt_t doubt;
        int at_s;
        provider_again_t again;
    } cases[] = {
        {PROVIDER_DOUBT_WRONG, 0, PROVIDER_AGAIN_FETCH},
        {PROVIDER_DOUBT_LACKS, 0, PROVIDER_AGAIN_FETCH},
        {PROVIDER_DOUBT_WRONG, 60, PROVIDER_AGAIN_NO},
        {PROVIDER_DOUBT_LACKS, 60, PROVIDER_AGAIN_FETCH},
        {PROVIDER_DOUBT_WRONG, 3599, PROVIDER_AGAIN_NO},
        {PROVIDER_DOUBT_WRONG, 3600, PROVIDER_AGAIN_FETCH},
    };

    for (size_t i = 0; i < LEN(cases); i++) {
        const provider_wanted_t wanted = {.account = "ac_a",
                                          .kind = "keys",
                                          .name = "k",
                                          .asker = PROVIDER_ASKER_LOGOUT,
                                          .doubt = cases[i].doubt};
        uint64_t fetch;

        cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S + cases[i].at_s, &fetch),
                     cases[i].again, "case %zu", i);
        provider_cache_end(cache, fetch);
    }
    provider_cache_destroy(&cache);
}

Test(provider_cache, who_comes_while_a_fetch_is_under_way_waits_for_it)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    provider_wanted_t wanted = {
        .account = "ac_a", .kind = "keys", .name = "k", .asker = PROVIDER_ASKER_LOGOUT};
    uint64_t first, other;

    cr_assert(provider_cache_begin(cache, "ac_a", "keys", "k", NOW_S, &first));
    cr_assert_not(provider_cache_begin(cache, "ac_a", "keys", "k", NOW_S + 9, &other));
    cr_assert_eq(other, first);
    cr_assert(provider_cache_begin(cache, "ac_b", "keys", "k", NOW_S, &other), "another account");
    cr_assert_neq(other, first);
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S - 1, &other), PROVIDER_AGAIN_WAIT);
    cr_assert_eq(other, first);
    wanted.waits = PROVIDER_CACHE_WAITS_MAX;
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &other), PROVIDER_AGAIN_FETCH,
                 "a wait costs no turn, and nobody waits for ever");
    provider_cache_end(cache, first);
    wanted.waits = 0;
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &first), PROVIDER_AGAIN_WAIT,
                 "what ended was not the newer one");
    provider_cache_end(cache, other);
    provider_cache_end(cache, other);
    provider_cache_end(cache, 0);
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &other), PROVIDER_AGAIN_NO);
    cr_assert_eq(other, 0);
    cr_assert(provider_cache_begin(cache, "ac_a", "keys", "k", NOW_S, &other));
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S + PROVIDER_CACHE_AGAIN_S, &first),
                 PROVIDER_AGAIN_FETCH, "one that never ended holds nobody up for ever");
    provider_cache_destroy(&cache);
}
