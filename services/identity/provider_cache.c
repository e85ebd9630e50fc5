/* Documents of identity providers, for which account each counts, and who gives way to new ones. */
#include "services/identity/provider_cache_internal.h"
#include "common/base/cleanup.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { SHARED_DOCUMENTS = 1000, SHARED_BYTES = 32 << 20 };

/* An account that documents count for; there are no more of them than documents. */
struct owner {
    uint64_t hash; /* of the account */
    size_t count, bytes;
};

struct entry {
    uint64_t owner; /* hash of the account that it counts for */
    char *name;     /* kind, a line end, name */
    char *text;
    size_t len, bytes;
    uint64_t used;  /* number of the last use */
    uint64_t fetch; /* that brought it */
    int64_t fetched_s, life_s;
    int64_t retry_s; /* not before: somebody is fetching it, or it just failed */
};

uint64_t provider_cache_hash(const provider_cache_t *self, const char *text)
{
    unsigned char out[crypto_shorthash_BYTES];
    uint64_t hash;

    crypto_shorthash(out, (const unsigned char *)text, strlen(text), self->secret);
    memcpy(&hash, out, sizeof(hash));
    return hash;
}

uint64_t provider_cache_hash_of_use(const provider_cache_t *self, int sort, const char *account,
                                    const char *kind, const char *name, const char *part)
{
    size_t size = strlen(account) + strlen(kind) + strlen(name) + strlen(part) + 32;
    char *text = malloc(size);
    uint64_t hash;

    if (!text)
        return 0;
    snprintf(text, size, "%s\n%d\n%s\n%s\n%s", account, sort, kind, name, part);
    hash = provider_cache_hash(self, text);
    free(text);
    return hash;
}

bool provider_cache_is_ahead(int64_t at_s, int64_t now_s, int64_t most_s)
{
    return at_s - now_s > most_s + PROVIDER_CACHE_FETCH_MAX_S;
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
    provider_turns_init(&self->turns);
    provider_fetches_init(&self->fetches);
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
    provider_turns_done(&self->turns);
    provider_fetches_done(&self->fetches);
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
        entry_share(self, entry, provider_cache_hash(self, account));
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
        entry_replace(self, old, &made, provider_cache_hash(self, account));
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
