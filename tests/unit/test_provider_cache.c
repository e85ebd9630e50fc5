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
    provider_cache_put(
        cache, "ac_1", "keys", name,
        &(provider_document_t){.text = name, .len = strlen(name), .cache_control = "max-age=100"},
        now_s);
}

/* A document of that many bytes of an account. */
static void put_large(provider_cache_t *cache, const char *account, const char *name, char *text,
                      size_t len)
{
    provider_cache_put(cache, account, "keys", name,
                       &(provider_document_t){.text = text, .len = len}, NOW_S);
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
    put_large(cache, "ac_1", "d", large, 8999);
    put_large(cache, "ac_1", "e", large, 8999);
    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_NONE);
    cr_assert_eq(find(cache, "d", NOW_S), PROVIDER_CACHE_NONE);
    put_large(cache, "ac_1", large, large, 8999);
    cr_assert_eq(find(cache, large, NOW_S), PROVIDER_CACHE_NONE, "larger than all");
    provider_cache_destroy(&cache);
}

/* Is a fetch out of turn this flow's? It is over at once. lacks: the key id. */
static bool again_for(provider_cache_t *cache, const char *account, provider_asker_t asker,
                      const char *name, const char *lacks, int64_t now_s)
{
    const provider_wanted_t wanted = {
        .account = account, .kind = "keys", .name = name, .asker = asker, .lacks = lacks};
    uint64_t fetch;
    provider_again_t may = provider_cache_again(cache, &wanted, now_s, &fetch);

    provider_cache_end(cache, fetch, true);
    return may == PROVIDER_AGAIN_FETCH;
}

/* The same of a key id that nobody has named before. */
static bool again(provider_cache_t *cache, const char *account, provider_asker_t asker,
                  const char *name, int64_t now_s)
{
    static _Atomic unsigned count;
    char lacks[16];

    snprintf(lacks, sizeof(lacks), "k%u", count++);
    return again_for(cache, account, asker, name, lacks, now_s);
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
    provider_cache_put(cache, account, "keys", name,
                       &(provider_document_t){.text = name, .len = strlen(name)}, NOW_S);
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
        put_large(cache, "ac_many", name, large, sizeof(large));
    }
    cr_assert(has(cache, "ac_few", "https://idp.example"));
    cr_assert(has(cache, "ac_many", "many/49"));
    provider_cache_destroy(&cache);
}

/* How many are made at once. */
static int again_at_once(provider_cache_t *cache, const char *account, provider_asker_t asker,
                         const char *name, int64_t now_s)
{
    int count = 0;

    while (count < 100 && again(cache, account, asker, name, now_s))
        count++;
    return count;
}

Test(provider_cache, each_account_and_asker_has_fetches_out_of_turn_of_its_own)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    static const struct {
        const char *account, *name;
        provider_asker_t asker;
        int at_s, at_once;
    } cases[] = {
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 0, 4},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 5, 0},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, -1, 0}, /* it began before, and came here later */
        {"ac_b", "k", PROVIDER_ASKER_LOGOUT, 5, 4},
        {"ac_a", "other", PROVIDER_ASKER_LOGOUT, 5, 4},
        {"ac_a", "k", PROVIDER_ASKER_BEARER, 5, 4},
        {"ac_a", "k", PROVIDER_ASKER_SIGN_IN, 5, 4},
        {"ac_a", "k", PROVIDER_ASKER_SIGN_IN, 10, 0},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 6, 1},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 11, 0},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 18, 2},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 3600, 4},
        {"ac_a", "k", PROVIDER_ASKER_LOGOUT, 600, 4}, /* a clock that was set back */
    };

    put(cache, "k", NOW_S);
    for (size_t i = 0; i < LEN(cases); i++)
        cr_assert_eq(again_at_once(cache, cases[i].account, cases[i].asker, cases[i].name,
                                   NOW_S + cases[i].at_s),
                     cases[i].at_once, "case %zu", i);
    provider_cache_destroy(&cache);
}

Test(provider_cache, a_key_id_that_is_made_up_each_minute_leaves_fetches_to_one_that_is_new)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    int fetched = 0;

    for (int at_s = 0; at_s < 600; at_s += 60) {
        cr_assert(again(cache, "ac_a", PROVIDER_ASKER_LOGOUT, "k", NOW_S + at_s));
        cr_assert(again(cache, "ac_a", PROVIDER_ASKER_LOGOUT, "k", NOW_S + at_s));
    }
    for (int at_s = 1000; at_s < 1600; at_s++)
        fetched += again_at_once(cache, "ac_a", PROVIDER_ASKER_LOGOUT, "k", NOW_S + at_s);
    cr_assert_eq(fetched, 4 + 99, "whatever comes, the provider is asked for 10 a minute");
    provider_cache_destroy(&cache);
}

Test(provider_cache, what_was_looked_for_in_vain_leaves_fetches_to_what_is_new)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    const provider_asker_t asker = PROVIDER_ASKER_LOGOUT;

    cr_assert(again_for(cache, "ac_a", asker, "k", "made-up", NOW_S));
    cr_assert(again_for(cache, "ac_a", asker, "k", "made-up", NOW_S));
    cr_assert_not(again_for(cache, "ac_a", asker, "k", "made-up", NOW_S));
    cr_assert(again_for(cache, "ac_a", asker, "k", NULL, NOW_S), "one without an id, the first");
    cr_assert_not(again_for(cache, "ac_a", asker, "k", NULL, NOW_S));
    cr_assert(again_for(cache, "ac_a", asker, "k", "new", NOW_S));
    cr_assert_not(again_for(cache, "ac_a", asker, "k", "newer", NOW_S));
    cr_assert_not(again_for(cache, "ac_a", asker, "k", "made-up", NOW_S + 17));
    cr_assert(again_for(cache, "ac_a", asker, "k", "made-up", NOW_S + 18),
              "nor is it out of the question that somebody has that key by now");
    cr_assert(again_for(cache, "ac_b", asker, "k", "made-up", NOW_S), "another account");
    for (int i = 0; i < 3; i++)
        cr_assert(again(cache, "ac_a", asker, "k", NOW_S + 200));
    cr_assert(again_for(cache, "ac_a", asker, "k", "made-up", NOW_S + 200),
              "what was long ago is new");
    provider_cache_destroy(&cache);
}

Test(provider_cache, no_key_id_gives_turns_back_that_are_used_up)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);

    for (int i = 0; i < 20000; i++) { /* of 8,192 places each has had several ids */
        int fetched = 0;

        for (int n = 0; n < PROVIDER_CACHE_SPARE + 1; n++)
            fetched += again(cache, "ac_a", PROVIDER_ASKER_LOGOUT, "k", NOW_S + 60 * i);
        cr_assert_leq(fetched, PROVIDER_CACHE_SPARE, "after %d minutes", i);
    }
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
        {PROVIDER_DOUBT_WRONG, 9, PROVIDER_AGAIN_NO},
        {PROVIDER_DOUBT_LACKS, 9, PROVIDER_AGAIN_FETCH},
        {PROVIDER_DOUBT_WRONG, 10, PROVIDER_AGAIN_FETCH},
        {PROVIDER_DOUBT_WRONG, 10, PROVIDER_AGAIN_NO},
        {PROVIDER_DOUBT_WRONG, 600, PROVIDER_AGAIN_FETCH},
        {PROVIDER_DOUBT_WRONG, 600, PROVIDER_AGAIN_NO},
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
        provider_cache_end(cache, fetch, true);
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
    provider_cache_end(cache, first, true);
    wanted.waits = 0;
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &first), PROVIDER_AGAIN_WAIT,
                 "what ended was not the newer one");
    provider_cache_end(cache, other, true);
    provider_cache_end(cache, other, true);
    provider_cache_end(cache, 0, true);
    cr_assert_eq(again_at_once(cache, "ac_a", wanted.asker, "k", NOW_S), 3, "one was used up");
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &other), PROVIDER_AGAIN_NO);
    cr_assert_eq(other, 0);
    cr_assert(provider_cache_begin(cache, "ac_a", "keys", "k", NOW_S, &other));
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S + PROVIDER_CACHE_FETCH_MAX_S, &first),
                 PROVIDER_AGAIN_FETCH, "one that never ended holds nobody up for ever");
    provider_cache_destroy(&cache);
}

Test(provider_cache, a_fetch_that_brings_nothing_is_over_with_the_last_who_takes_part_in_it)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    const provider_wanted_t wanted = {
        .account = "ac_a", .kind = "keys", .name = "k", .asker = PROVIDER_ASKER_LOGOUT};
    uint64_t first, second, third;

    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &first), PROVIDER_AGAIN_FETCH);
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &second), PROVIDER_AGAIN_WAIT);
    provider_cache_end(cache, first, false);
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &third), PROVIDER_AGAIN_WAIT,
                 "the second one still waits for its answer");
    cr_assert_eq(third, first);
    provider_cache_end(cache, second, false);
    provider_cache_end(cache, third, false);
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &third), PROVIDER_AGAIN_FETCH);
    cr_assert_eq(provider_cache_again(cache, &wanted, NOW_S, &second), PROVIDER_AGAIN_WAIT);
    provider_cache_end(cache, second, true);
    cr_assert(provider_cache_begin(cache, "ac_a", "keys", "k", NOW_S, &first),
              "what has come is awaited by nobody");
    provider_cache_destroy(&cache);
}

Test(provider_cache, what_was_answered_with_no_document_is_remembered_for_a_moment)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    static const struct {
        const char *account, *kind, *name;
        int at_s;
        bool has_failed;
    } cases[] = {
        {"ac_a", "keys", "k", 0, true},
        {"ac_a", "keys", "k", PROVIDER_CACHE_FAILED_S - 1, true},
        {"ac_a", "keys", "k", -1, true}, /* it began before, and came here later */
        {"ac_a", "keys", "k", PROVIDER_CACHE_FAILED_S, false},
        {"ac_a", "keys", "k", -3600, false}, /* a clock that was set back */
        {"ac_b", "keys", "k", 0, false},
        {"ac_a", "metadata", "k", 0, false},
        {"ac_a", "keys", "other", 0, false},
    };

    cr_assert_not(provider_cache_failed(cache, "ac_a", "keys", "k", NOW_S));
    provider_cache_fail(cache, "ac_a", "keys", "k", NOW_S);
    for (size_t i = 0; i < LEN(cases); i++)
        cr_assert_eq(provider_cache_failed(cache, cases[i].account, cases[i].kind, cases[i].name,
                                           NOW_S + cases[i].at_s),
                     cases[i].has_failed, "case %zu", i);
    provider_cache_destroy(&cache);
    provider_cache_fail(NULL, "ac_a", "keys", "k", NOW_S);
    cr_assert_not(provider_cache_failed(NULL, "ac_a", "keys", "k", NOW_S));
}

/* As a flow puts what its fetch has brought. */
static void put_fetched(provider_cache_t *cache, uint64_t fetch, const char *text, int64_t now_s)
{
    provider_cache_put(cache, "ac_1", "keys", "k",
                       &(provider_document_t){.text = text, .len = strlen(text), .fetch = fetch},
                       now_s);
}

static bool is_kept(provider_cache_t *cache, const char *text)
{
    _cleanup_(free_mem) char *kept = NULL;
    size_t len = 0;

    provider_cache_find(cache, "ac_1", "keys", "k", NOW_S, &kept, &len);
    return kept && !strcmp(kept, text);
}

Test(provider_cache, an_answer_that_comes_late_takes_the_place_of_no_newer_one)
{
    provider_cache_t *cache = provider_cache_new(8, 1 << 20);
    uint64_t first, second;

    cr_assert(provider_cache_begin(cache, "ac_1", "keys", "k", NOW_S, &first));
    put_fetched(cache, first, "withdrawn", NOW_S);
    provider_cache_end(cache, first, true);
    cr_assert(provider_cache_begin(cache, "ac_2", "keys", "k", NOW_S, &second));
    put_fetched(cache, second, "new", NOW_S);
    put_fetched(cache, first, "withdrawn", NOW_S);
    cr_assert(is_kept(cache, "new"));
    provider_cache_destroy(&cache);
}
