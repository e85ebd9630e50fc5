/* Fetches of documents that are under way: which flow makes one, and which ones wait for it. */
#include "common/base/memory.h"
#include "services/identity/provider_cache_internal.h"

enum { FETCHES = 8192 /* that are under way */ };

void provider_fetches_init(provider_fetches_t *self)
{
    *self = (provider_fetches_t){.under_way = memory_need(calloc(FETCHES, sizeof(*self->under_way)),
                                                          "the cache of providers")};
}

void provider_fetches_done(provider_fetches_t *self)
{
    free(self->under_way);
}

/* Take part in the fetch that is under way. Its number; 0: none is. */
static uint64_t fetch_join(provider_fetches_t *self, uint64_t hash, int64_t now_s)
{
    fetching_t *one = &self->under_way[hash % FETCHES];

    if (!one->number || one->hash != hash || provider_cache_is_ahead(one->began_s, now_s, 0)
        || now_s - one->began_s >= PROVIDER_CACHE_FETCH_MAX_S)
        return 0;
    one->flows++;
    return one->number;
}

/* Its number says which place it has, and of two which one is the later. */
static uint64_t fetch_add(provider_fetches_t *self, uint64_t hash, int64_t now_s)
{
    const uint64_t number = ++self->count * FETCHES + hash % FETCHES;

    self->under_way[hash % FETCHES] =
        (fetching_t){.hash = hash, .number = number, .flows = 1, .began_s = now_s};
    return number;
}

bool provider_cache_begin(provider_cache_t *self, const char *account, const char *kind,
                          const char *name, int64_t now_s, uint64_t *ret_fetch)
{
    uint64_t hash =
        self ? provider_cache_hash_of_use(self, SORT_FETCH, account, kind, name, "") : 0;
    bool is_first;

    *ret_fetch = 0;
    if (!hash)
        return true;
    pthread_mutex_lock(&self->lock);
    *ret_fetch = fetch_join(&self->fetches, hash, now_s);
    is_first = !*ret_fetch;
    if (is_first)
        *ret_fetch = fetch_add(&self->fetches, hash, now_s);
    pthread_mutex_unlock(&self->lock);
    return is_first;
}

void provider_cache_end(provider_cache_t *self, uint64_t fetch, bool is_there)
{
    fetching_t *one;

    if (!self || !fetch)
        return;
    one = &self->fetches.under_way[fetch % FETCHES];
    pthread_mutex_lock(&self->lock);
    if (one->number == fetch && (is_there || !--one->flows))
        *one = (fetching_t){0};
    pthread_mutex_unlock(&self->lock);
}

/* A fetch out of turn, if there is a turn now. Its number, or 0. */
static uint64_t fetch_again(provider_cache_t *self, const provider_wanted_t *wanted, uint64_t hash,
                            int64_t now_s)
{
    return hash && provider_turns_take(self, wanted, now_s) ? fetch_add(&self->fetches, hash, now_s)
                                                            : 0;
}

provider_again_t provider_cache_again(provider_cache_t *self, const provider_wanted_t *wanted,
                                      int64_t now_s, uint64_t *ret_fetch)
{
    provider_again_t again = PROVIDER_AGAIN_WAIT;
    uint64_t fetch;

    *ret_fetch = 0;
    if (!self)
        return PROVIDER_AGAIN_FETCH;
    fetch = provider_cache_hash_of_use(self, SORT_FETCH, wanted->account, wanted->kind,
                                       wanted->name, "");
    pthread_mutex_lock(&self->lock);
    if (fetch && wanted->waits < PROVIDER_CACHE_WAITS_MAX)
        *ret_fetch = fetch_join(&self->fetches, fetch, now_s);
    if (!*ret_fetch) {
        *ret_fetch = fetch_again(self, wanted, fetch, now_s);
        again = *ret_fetch ? PROVIDER_AGAIN_FETCH : PROVIDER_AGAIN_NO;
    }
    pthread_mutex_unlock(&self->lock);
    return again;
}
