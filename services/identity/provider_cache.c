#include "services/identity/provider_cache.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"

#include <ctype.h>
#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    SHARED_DOCUMENTS = 1000,
    SHARED_BYTES = 32 << 20,
    TURNS = 8192,    /* fetches out of turn that are remembered, and as many of what for */
    FETCHES = 8192,  /* that are under way */
    SORT_FETCH = -1, /* where an asker stands otherwise */
    SORT_VAIN = -2,  /* the same */
    SORT_FAILED = -3,
    DOUBTS = 2
};

/* An account that documents count for; there are no more of them than documents. */
typedef struct owner {
    uint64_t hash; /* of the account */
    size_t count, bytes;
} owner_t;

/* Fetches out of turn of an account, asker, doubt and document: each moves the time on by what lies
 * between two, and it may be ahead of now by as many as may come at once. Or what such a fetch was
 * for, until that may be new again; or a document that a fetch has not brought. Two that have the
 * same place do not hold each other up: the newer one takes it. */
typedef struct turn {
    uint64_t hash; /* of all that it is about */
    int64_t until_s;
} turn_t;

/* A fetch that is under way, of an account and a document; in its place as a turn is. */
typedef struct fetching {
    uint64_t hash;   /* of both */
    uint64_t number; /* 0: none is */
    unsigned flows;  /* that take part in it */
    int64_t began_s;
} fetching_t;

typedef struct entry {
    uint64_t owner; /* hash of the account that it counts for */
    char *name;     /* kind, a line end, name */
    char *text;
    size_t len, bytes;
    uint64_t used;  /* number of the last use */
    uint64_t fetch; /* that brought it */
    int64_t fetched_s, life_s;
    int64_t retry_s; /* not before: somebody is fetching it, or it just failed */
} entry_t;

struct provider_cache {
    pthread_mutex_t lock;
    entry_t *entries;
    size_t count, count_max, bytes, bytes_max;
    owner_t *owners;
    size_t owner_count;
    turn_t *turns, *vains, *failures; /* fetches; what for; of what in vain: by themselves, so that
                                         none takes the others' places */
    fetching_t *fetches;
    uint64_t fetch_count;                            /* that there were */
    unsigned char secret[crypto_shorthash_KEYBYTES]; /* of hashes, which nobody else can tell */
    uint64_t uses;
};

static uint64_t hash_of(const provider_cache_t *self, const char *text)
{
    unsigned char out[crypto_shorthash_BYTES];
    uint64_t hash;

    crypto_shorthash(out, (const unsigned char *)text, strlen(text), self->secret);
    memcpy(&hash, out, sizeof(hash));
    return hash;
}

provider_cache_t *provider_cache_new(size_t count, size_t bytes)
{
    provider_cache_t *self = memory_new(sizeof(*self), "the cache of providers");

    self->count_max = count;
    self->bytes_max = bytes;
    self->entries =
        memory_need(calloc(count ? count : 1, sizeof(*self->entries)), "the cache of providers");
    self->owners =
        memory_need(calloc(count ? count : 1, sizeof(*self->owners)), "the cache of providers");
    self->turns = memory_need(calloc(TURNS, sizeof(*self->turns)), "the cache of providers");
    self->vains = memory_need(calloc(TURNS, sizeof(*self->vains)), "the cache of providers");
    self->failures = memory_need(calloc(TURNS, sizeof(*self->failures)), "the cache of providers");
    self->fetches = memory_need(calloc(FETCHES, sizeof(*self->fetches)), "the cache of providers");
    randombytes_buf(self->secret, sizeof(self->secret));
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

/* ---- whose they are ---- */

static owner_t *owner_find(const provider_cache_t *self, uint64_t hash)
{
    for (size_t i = 0; i < self->owner_count; i++)
        if (self->owners[i].hash == hash)
            return &self->owners[i];
    return NULL;
}

/* The document counts for that account from now on. */
static void entry_give(provider_cache_t *self, entry_t *entry, uint64_t hash)
{
    owner_t *owner = owner_find(self, hash);

    if (!owner) {
        owner = &self->owners[self->owner_count++];
        *owner = (owner_t){.hash = hash};
    }
    owner->count++;
    owner->bytes += entry->bytes;
    entry->owner = hash;
}

/* It counts for nobody. */
static void entry_take(provider_cache_t *self, const entry_t *entry)
{
    owner_t *owner = owner_find(self, entry->owner);

    INVARIANT(owner && owner->count);
    owner->count--;
    owner->bytes -= entry->bytes;
    if (!owner->count)
        *owner = self->owners[--self->owner_count];
}

/* Of the accounts that use a document it counts for the one that has the fewest. */
static void entry_share(provider_cache_t *self, entry_t *entry, uint64_t hash)
{
    const owner_t *user = owner_find(self, hash), *owner = owner_find(self, entry->owner);

    if (hash == entry->owner || (user && user->count + 1 >= owner->count))
        return;
    entry_take(self, entry);
    entry_give(self, entry, hash);
}

static void entry_drop(entry_t *entry)
{
    free(entry->name);
    free(entry->text);
}

static void entry_remove(provider_cache_t *self, entry_t *entry)
{
    entry_take(self, entry);
    entry_drop(entry);
    self->bytes -= entry->bytes;
    *entry = self->entries[--self->count];
    self->entries[self->count] = (entry_t){0};
}

void provider_cache_destroy(provider_cache_t **self_p)
{
    provider_cache_t *self = take(*self_p);

    if (!self)
        return;
    while (self->count)
        entry_remove(self, &self->entries[0]);
    pthread_mutex_destroy(&self->lock);
    free(self->entries);
    free(self->owners);
    free(self->turns);
    free(self->vains);
    free(self->failures);
    free(self->fetches);
    free(self);
}

static entry_t *entry_find(provider_cache_t *self, const char *kind, const char *name)
{
    size_t len = strlen(kind);

    for (size_t i = 0; i < self->count; i++) {
        entry_t *entry = &self->entries[i];

        if (!strncmp(entry->name, kind, len) && entry->name[len] == '\n'
            && !strcmp(entry->name + len + 1, name))
            return entry;
    }
    return NULL;
}

/* A clock that was set back makes nothing younger than now. */
static void entry_correct(entry_t *entry, int64_t now_s)
{
    if (entry->fetched_s > now_s)
        entry->fetched_s = now_s;
    if (entry->retry_s > now_s + PROVIDER_CACHE_RETRY_S)
        entry->retry_s = now_s;
}

static provider_cached_t entry_state(entry_t *entry, int64_t now_s)
{
    int64_t age_s;

    entry_correct(entry, now_s);
    age_s = now_s - entry->fetched_s;
    if (age_s >= entry->life_s + PROVIDER_CACHE_KEPT_S)
        return PROVIDER_CACHE_NONE;
    if (age_s < entry->life_s || now_s < entry->retry_s)
        return PROVIDER_CACHE_FRESH;
    entry->retry_s = now_s + PROVIDER_CACHE_RETRY_S;
    return PROVIDER_CACHE_STALE;
}

provider_cached_t provider_cache_find(provider_cache_t *self, const char *account, const char *kind,
                                      const char *name, int64_t now_s, char **ret_text,
                                      size_t *ret_len)
{
    provider_cached_t state = PROVIDER_CACHE_NONE;
    entry_t *entry;

    if (!self)
        return state;
    pthread_mutex_lock(&self->lock);
    entry = entry_find(self, kind, name);
    if (entry)
        state = entry_state(entry, now_s);
    if (entry && state != PROVIDER_CACHE_NONE) {
        entry_share(self, entry, hash_of(self, account));
        entry->used = ++self->uses;
        *ret_text = malloc(entry->len + 1);
        *ret_len = entry->len;
        if (*ret_text)
            memcpy(*ret_text, entry->text, entry->len + 1);
        else
            state = PROVIDER_CACHE_NONE;
    }
    pthread_mutex_unlock(&self->lock);
    return state;
}

/* ---- fetches ---- */

/* Hash of a document of an account, of a sort of use, and of what of the document it is about ("":
 * all). 0: no memory. */
static uint64_t hash_of_use(const provider_cache_t *self, int sort, const char *account,
                            const char *kind, const char *name, const char *part)
{
    size_t size = strlen(account) + strlen(kind) + strlen(name) + strlen(part) + 32;
    char *text = malloc(size);
    uint64_t hash;

    if (!text)
        return 0;
    snprintf(text, size, "%s\n%d\n%s\n%s\n%s", account, sort, kind, name, part);
    hash = hash_of(self, text);
    free(text);
    return hash;
}

/* Who asks may have begun before what is remembered; a clock that was set back by more makes nobody
 * wait. */
static bool is_ahead(int64_t at_s, int64_t now_s, int64_t most_s)
{
    return at_s - now_s > most_s + PROVIDER_CACHE_FETCH_MAX_S;
}

/* Take part in the fetch that is under way. Its number; 0: none is. */
static uint64_t fetch_join(provider_cache_t *self, uint64_t hash, int64_t now_s)
{
    fetching_t *one = &self->fetches[hash % FETCHES];

    if (!one->number || one->hash != hash || is_ahead(one->began_s, now_s, 0)
        || now_s - one->began_s >= PROVIDER_CACHE_FETCH_MAX_S)
        return 0;
    one->flows++;
    return one->number;
}

/* Its number says which place it has, and of two which one is the later. */
static uint64_t fetch_add(provider_cache_t *self, uint64_t hash, int64_t now_s)
{
    const uint64_t number = ++self->fetch_count * FETCHES + hash % FETCHES;

    self->fetches[hash % FETCHES] =
        (fetching_t){.hash = hash, .number = number, .flows = 1, .began_s = now_s};
    return number;
}

bool provider_cache_begin(provider_cache_t *self, const char *account, const char *kind,
                          const char *name, int64_t now_s, uint64_t *ret_fetch)
{
    uint64_t hash = self ? hash_of_use(self, SORT_FETCH, account, kind, name, "") : 0;
    bool is_first;

    *ret_fetch = 0;
    if (!hash)
        return true;
    pthread_mutex_lock(&self->lock);
    *ret_fetch = fetch_join(self, hash, now_s);
    is_first = !*ret_fetch;
    if (is_first)
        *ret_fetch = fetch_add(self, hash, now_s);
    pthread_mutex_unlock(&self->lock);
    return is_first;
}

void provider_cache_end(provider_cache_t *self, uint64_t fetch, bool is_there)
{
    fetching_t *one;

    if (!self || !fetch)
        return;
    one = &self->fetches[fetch % FETCHES];
    pthread_mutex_lock(&self->lock);
    if (one->number == fetch && (is_there || !--one->flows))
        *one = (fetching_t){0};
    pthread_mutex_unlock(&self->lock);
}

/* Take a turn, if there is one now, and as many as are to be left. */
static bool turn_take(provider_cache_t *self, uint64_t hash, provider_doubt_t doubt, int left,
                      int64_t now_s)
{
    const bool is_rare = doubt == PROVIDER_DOUBT_WRONG;
    const int64_t between_s = is_rare ? PROVIDER_CACHE_WRONG_S : PROVIDER_CACHE_AGAIN_S;
    const int64_t at_once = is_rare ? 1 : PROVIDER_CACHE_SPARE;
    turn_t *turn = &self->turns[hash % TURNS];
    int64_t until_s = now_s;

    if (turn->hash == hash && turn->until_s > now_s
        && !is_ahead(turn->until_s, now_s, at_once * between_s))
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

    return turn->hash == hash && turn->until_s > now_s && !is_ahead(turn->until_s, now_s, most_s);
}

/* A fetch out of turn, if there is a turn now. Its number, or 0. Whoever makes up one key id after
 * another has turns for as many as he likes, and what is fetched for him is there for everybody;
 * whoever names the same one again leaves some to those who name one that is new. */
static uint64_t fetch_again(provider_cache_t *self, const provider_wanted_t *wanted, uint64_t fetch,
                            int64_t now_s)
{
    const int sort = DOUBTS * (int)wanted->asker + (int)wanted->doubt;
    const uint64_t turn = hash_of_use(self, sort, wanted->account, wanted->kind, wanted->name, "");
    const uint64_t vain = hash_of_use(self, SORT_VAIN, wanted->account, wanted->kind, wanted->name,
                                      wanted->lacks ? wanted->lacks : "");
    const bool lacks = wanted->doubt == PROVIDER_DOUBT_LACKS;
    const bool is_again = lacks && is_remembered(self->vains, vain, now_s, PROVIDER_CACHE_VAIN_S);

    if (!turn || !vain || !fetch
        || !turn_take(self, turn, wanted->doubt, is_again ? PROVIDER_CACHE_LEFT : 0, now_s))
        return 0;
    if (lacks && !is_again)
        self->vains[vain % TURNS] =
            (turn_t){.hash = vain, .until_s = now_s + PROVIDER_CACHE_VAIN_S};
    return fetch_add(self, fetch, now_s);
}

provider_again_t provider_cache_again(provider_cache_t *self, const provider_wanted_t *wanted,
                                      int64_t now_s, uint64_t *ret_fetch)
{
    provider_again_t again = PROVIDER_AGAIN_WAIT;
    uint64_t fetch;

    *ret_fetch = 0;
    if (!self)
        return PROVIDER_AGAIN_FETCH;
    fetch = hash_of_use(self, SORT_FETCH, wanted->account, wanted->kind, wanted->name, "");
    pthread_mutex_lock(&self->lock);
    if (fetch && wanted->waits < PROVIDER_CACHE_WAITS_MAX)
        *ret_fetch = fetch_join(self, fetch, now_s);
    if (!*ret_fetch) {
        *ret_fetch = fetch_again(self, wanted, fetch, now_s);
        again = *ret_fetch ? PROVIDER_AGAIN_FETCH : PROVIDER_AGAIN_NO;
    }
    pthread_mutex_unlock(&self->lock);
    return again;
}

void provider_cache_fail(provider_cache_t *self, const char *account, const char *kind,
                         const char *name, int64_t now_s)
{
    const uint64_t hash = self ? hash_of_use(self, SORT_FAILED, account, kind, name, "") : 0;

    if (!hash)
        return;
    pthread_mutex_lock(&self->lock);
    self->failures[hash % TURNS] =
        (turn_t){.hash = hash, .until_s = now_s + PROVIDER_CACHE_FAILED_S};
    pthread_mutex_unlock(&self->lock);
}

bool provider_cache_failed(provider_cache_t *self, const char *account, const char *kind,
                           const char *name, int64_t now_s)
{
    const uint64_t hash = self ? hash_of_use(self, SORT_FAILED, account, kind, name, "") : 0;
    bool has_failed;

    if (!hash)
        return false;
    pthread_mutex_lock(&self->lock);
    has_failed = is_remembered(self->failures, hash, now_s, PROVIDER_CACHE_FAILED_S);
    pthread_mutex_unlock(&self->lock);
    return has_failed;
}

/* ---- room ---- */

/* The account that has the most, of bytes or of documents. */
static uint64_t largest_owner(const provider_cache_t *self, bool by_bytes)
{
    const owner_t *most = &self->owners[0];

    for (size_t i = 1; i < self->owner_count; i++) {
        const owner_t *one = &self->owners[i];

        if (by_bytes ? one->bytes > most->bytes : one->count > most->count)
            most = one;
    }
    return most->hash;
}

/* Room for one more document of this size. */
static void make_room(provider_cache_t *self, size_t bytes)
{
    while (self->count == self->count_max || self->bytes + bytes > self->bytes_max) {
        const uint64_t owner = largest_owner(self, self->bytes + bytes > self->bytes_max);
        entry_t *oldest = NULL;

        for (size_t i = 0; i < self->count; i++) {
            entry_t *one = &self->entries[i];

            if (one->owner == owner && (!oldest || one->used < oldest->used))
                oldest = one;
        }
        INVARIANT(oldest); /* who has the most has one */
        entry_remove(self, oldest);
    }
}

/* A copy of it, which counts for nobody yet. False: no memory. */
static bool entry_make(entry_t *self, const char *kind, const char *name,
                       const provider_document_t *document, int64_t now_s)
{
    const size_t name_len = strlen(kind) + 1 + strlen(name), len = document->len;

    *self = (entry_t){.name = malloc(name_len + 1),
                      .text = malloc(len + 1),
                      .len = len,
                      .bytes = sizeof(entry_t) + name_len + 1 + len + 1,
                      .fetch = document->fetch,
                      .fetched_s = now_s,
                      .life_s = provider_cache_life_s(document->cache_control)};
    if (!self->name || !self->text) {
        entry_drop(self);
        return false;
    }
    snprintf(self->name, name_len + 1, "%s\n%s", kind, name);
    memcpy(self->text, document->text, len);
    self->text[len] = '\0';
    return true;
}

/* Take it over, in place of the old one (NULL: there is none), with room for it. */
static void entry_replace(provider_cache_t *self, entry_t *old, entry_t *made, uint64_t owner)
{
    if (old) {
        entry_share(self, old, owner);
        owner = old->owner;
        entry_remove(self, old);
    }
    make_room(self, made->bytes);
    made->used = ++self->uses;
    entry_give(self, made, owner);
    self->entries[self->count++] = *made;
    self->bytes += made->bytes;
}

void provider_cache_put(provider_cache_t *self, const char *account, const char *kind,
                        const char *name, const provider_document_t *document, int64_t now_s)
{
    entry_t made;
    entry_t *old;
    bool is_late;

    if (!self || !self->count_max || document->len >= self->bytes_max
        || !entry_make(&made, kind, name, document, now_s))
        return;
    pthread_mutex_lock(&self->lock);
    old = entry_find(self, kind, name);
    is_late = old && document->fetch && document->fetch <= old->fetch;
    if (!is_late && made.bytes <= self->bytes_max)
        entry_replace(self, old, &made, hash_of(self, account));
    else
        entry_drop(&made);
    pthread_mutex_unlock(&self->lock);
}

static provider_cache_t *shared;

static void make_shared(void)
{
    shared = provider_cache_new(SHARED_DOCUMENTS, SHARED_BYTES);
}

provider_cache_t *provider_cache_shared(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, make_shared);
    return shared;
}

/* Digits of a directive's value, perhaps in quotes. Too many of them are as many as can be. */
static int64_t seconds_of(const char *value)
{
    int64_t seconds = 0;

    value += *value == '"';
    if (!isdigit((unsigned char)*value))
        return PROVIDER_CACHE_LIFE_MIN_S;
    for (; isdigit((unsigned char)*value); value++)
        if (seconds <= PROVIDER_CACHE_LIFE_MAX_S)
            seconds = seconds * 10 + (*value - '0');
    if (seconds < PROVIDER_CACHE_LIFE_MIN_S)
        return PROVIDER_CACHE_LIFE_MIN_S;
    return seconds > PROVIDER_CACHE_LIFE_MAX_S ? PROVIDER_CACHE_LIFE_MAX_S : seconds;
}

int64_t provider_cache_life_s(const char *cache_control)
{
    static const char max_age[] = "max-age=";
    int64_t life_s = PROVIDER_CACHE_LIFE_S;

    for (const char *at = cache_control; at && *at;) {
        size_t len;

        at += strspn(at, " \t,");
        len = strcspn(at, ", \t");
        if ((len == 8 && !strncasecmp(at, "no-store", len))
            || (len == 8 && !strncasecmp(at, "no-cache", len)))
            return PROVIDER_CACHE_LIFE_MIN_S;
        if (len >= sizeof(max_age) - 1 && !strncasecmp(at, max_age, sizeof(max_age) - 1))
            life_s = seconds_of(at + sizeof(max_age) - 1);
        at += len;
    }
    return life_s;
}
