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
    provider_cached_t state = provider_cache_find(cache, "keys", name, now_s, &text, &len);

    cr_assert_eq(text != NULL, state != PROVIDER_CACHE_NONE);
    if (text)
        cr_assert_str_eq(text, name);
    return state;
}

static void put(provider_cache_t *cache, const char *name, int64_t now_s)
{
    provider_cache_put(cache, "keys", name, name, strlen(name), "max-age=100", now_s);
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
    provider_cache_put(cache, "keys", "d", large, 8999, NULL, NOW_S);
    provider_cache_put(cache, "keys", "e", large, 8999, NULL, NOW_S);
    cr_assert_eq(find(cache, "a", NOW_S), PROVIDER_CACHE_NONE);
    cr_assert_eq(find(cache, "d", NOW_S), PROVIDER_CACHE_NONE);
    provider_cache_put(cache, "metadata", large, large, 8999, NULL, NOW_S);
    cr_assert_eq(find(cache, large, NOW_S), PROVIDER_CACHE_NONE, "larger than all");
    provider_cache_destroy(&cache);
}

static void *use(void *arg)
{
    char name[16];

    for (int i = 0; i < 2000; i++) {
        snprintf(name, sizeof(name), "%d", i % 7);
        if (find(arg, name, NOW_S + i) != PROVIDER_CACHE_FRESH)
            put(arg, name, NOW_S + i);
        provider_cache_again(arg, "keys", name, NOW_S + i);
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
