/* How often a document is fetched out of turn, and which provider has failed a moment ago. */
#include "common/base/memory.h"
#include "services/identity/provider_cache_internal.h"

enum {
    TURNS = 8192, /* fetches out of turn that are remembered, and as many of what for */
    DOUBTS = 2
};

static turn_t *new_turns(void)
{
    return memory_need(calloc(TURNS, sizeof(turn_t)), "the cache of providers");
}

void provider_turns_init(provider_turns_t *self)
{
    self->taken = new_turns();
    self->vains = new_turns();
    self->failures = new_turns();
}

void provider_turns_done(provider_turns_t *self)
{
    free(self->taken);
    free(self->vains);
    free(self->failures);
}

/* As many are left as that. */
static bool take_leaving(provider_turns_t *self, uint64_t hash, provider_doubt_t doubt, int left,
                         int64_t now_s)
{
    const bool is_rare = doubt == PROVIDER_DOUBT_WRONG;
    const int64_t between_s = is_rare ? PROVIDER_CACHE_WRONG_S : PROVIDER_CACHE_AGAIN_S;
    const int64_t at_once = is_rare ? 1 : PROVIDER_CACHE_SPARE;
    turn_t *turn = &self->taken[hash % TURNS];
    int64_t until_s = now_s;

    if (turn->hash == hash && turn->until_s > now_s
        && !provider_cache_is_ahead(turn->until_s, now_s, at_once * between_s))
        until_s = turn->until_s;
    if (until_s - now_s > (at_once - 1 - left) * between_s)
        return false;
    *turn = (turn_t){.hash = hash, .until_s = until_s + between_s};
    return true;
}

/* Is it among those that are remembered for that long? */
static bool is_remembered(const turn_t turns[], uint64_t hash, int64_t now_s, int64_t most_s)
{
    const turn_t *turn = &turns[hash % TURNS];

    return turn->hash == hash && turn->until_s > now_s
           && !provider_cache_is_ahead(turn->until_s, now_s, most_s);
}

bool provider_turns_take(provider_cache_t *cache, const provider_wanted_t *wanted, int64_t now_s)
{
    provider_turns_t *self = &cache->turns;
    const int sort = DOUBTS * (int)wanted->asker + (int)wanted->doubt;
    const uint64_t turn =
        provider_cache_hash_of_use(cache, sort, wanted->account, wanted->kind, wanted->name, "");
    const uint64_t vain =
        provider_cache_hash_of_use(cache, SORT_VAIN, wanted->account, wanted->kind, wanted->name,
                                   wanted->lacks ? wanted->lacks : "");
    const bool lacks = wanted->doubt == PROVIDER_DOUBT_LACKS;
    const bool is_again = lacks && is_remembered(self->vains, vain, now_s, PROVIDER_CACHE_VAIN_S);

    if (!turn || !vain
        || !take_leaving(self, turn, wanted->doubt, is_again ? PROVIDER_CACHE_LEFT : 0, now_s))
        return false;
    if (lacks && !is_again)
        self->vains[vain % TURNS] =
            (turn_t){.hash = vain, .until_s = now_s + PROVIDER_CACHE_VAIN_S};
    return true;
}

void provider_cache_fail(provider_cache_t *self, const char *account, const char *kind,
                         const char *name, int64_t now_s)
{
    const uint64_t hash =
        self ? provider_cache_hash_of_use(self, SORT_FAILED, account, kind, name, "") : 0;

    if (!hash)
        return;
    pthread_mutex_lock(&self->lock);
    self->turns.failures[hash % TURNS] =
        (turn_t){.hash = hash, .until_s = now_s + PROVIDER_CACHE_FAILED_S};
    pthread_mutex_unlock(&self->lock);
}

bool provider_cache_failed(provider_cache_t *self, const char *account, const char *kind,
                           const char *name, int64_t now_s)
{
    const uint64_t hash =
        self ? provider_cache_hash_of_use(self, SORT_FAILED, account, kind, name, "") : 0;
    bool has_failed;

    if (!hash)
        return false;
    pthread_mutex_lock(&self->lock);
    has_failed = is_remembered(self->turns.failures, hash, now_s, PROVIDER_CACHE_FAILED_S);
    pthread_mutex_unlock(&self->lock);
    return has_failed;
}
