#include "services/identity/provider_cache.h"
#include "common/base/cleanup.h"
#include "common/base/memory.h"

#include <ctype.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

enum { SHARED_DOCUMENTS = 1000, SHARED_BYTES = 32 << 20 };

typedef struct entry {
    char *name; /* kind, a line end, name */
    char *text;
    size_t len, bytes;
    uint64_t used; /* number of the last use */
    int64_t fetched_s, life_s;
    int64_t retry_s; /* not before: somebody is fetching it, or it just failed */
    int64_t again_s; /* of the last fetch, in turn or not */
} entry_t;

struct provider_cache {
    pthread_mutex_t lock;
    entry_t *entries;
    size_t count, count_max, bytes, bytes_max;
    uint64_t uses;
};

provider_cache_t *provider_cache_new(size_t count, size_t bytes)
{
    provider_cache_t *self = memory_new(sizeof(*self), "the cache of providers");

    self->count_max = count;
    self->bytes_max = bytes;
    self->entries =
        memory_need(calloc(count ? count : 1, sizeof(*self->entries)), "the cache of providers");
    pthread_mutex_init(&self->lock, NULL);
    return self;
}

static void entry_remove(provider_cache_t *self, entry_t *entry)
{
    free(entry->name);
    free(entry->text);
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
    if (entry->again_s > now_s)
        entry->again_s = now_s;
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
    entry->again_s = now_s;
    return PROVIDER_CACHE_STALE;
}

provider_cached_t provider_cache_find(provider_cache_t *self, const char *kind, const char *name,
                                      int64_t now_s, char **ret_text, size_t *ret_len)
{
    provider_cached_t state = PROVIDER_CACHE_NONE;
    entry_t *entry;

    if (!self)
        return state;
    pthread_mutex_lock(&self->lock);
    entry = entry_find(self, kind, name);
    if (entry)
        state = entry_state(entry, now_s);
    if (state != PROVIDER_CACHE_NONE) {
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

bool provider_cache_again(provider_cache_t *self, const char *kind, const char *name, int64_t now_s)
{
    bool may = true;
    entry_t *entry;

    if (!self)
        return true;
    pthread_mutex_lock(&self->lock);
    entry = entry_find(self, kind, name);
    if (entry) {
        entry_correct(entry, now_s);
        may = now_s - entry->again_s >= PROVIDER_CACHE_AGAIN_S;
        if (may)
            entry->again_s = now_s;
    }
    pthread_mutex_unlock(&self->lock);
    return may;
}

/* Room for one more document of this size: what was used longest ago goes. */
static void make_room(provider_cache_t *self, size_t bytes)
{
    while (self->count == self->count_max || self->bytes + bytes > self->bytes_max) {
        entry_t *oldest = &self->entries[0];

        for (size_t i = 1; i < self->count; i++)
            if (self->entries[i].used < oldest->used)
                oldest = &self->entries[i];
        entry_remove(self, oldest);
    }
}

void provider_cache_put(provider_cache_t *self, const char *kind, const char *name,
                        const char *text, size_t len, const char *cache_control, int64_t now_s)
{
    size_t name_len = strlen(kind) + 1 + strlen(name);
    size_t bytes = sizeof(entry_t) + name_len + 1 + len + 1;
    entry_t made = {.len = len, .bytes = bytes, .fetched_s = now_s, .again_s = now_s};
    entry_t *old;

    if (!self || !self->count_max || bytes > self->bytes_max)
        return;
    made.life_s = provider_cache_life_s(cache_control);
    made.name = malloc(name_len + 1);
    made.text = malloc(len + 1);
    if (!made.name || !made.text) {
        free(made.name);
        free(made.text);
        return;
    }
    snprintf(made.name, name_len + 1, "%s\n%s", kind, name);
    memcpy(made.text, text, len);
    made.text[len] = '\0';
    pthread_mutex_lock(&self->lock);
    old = entry_find(self, kind, name);
    if (old)
        entry_remove(self, old);
    make_room(self, bytes);
    made.used = ++self->uses;
    self->entries[self->count++] = made;
    self->bytes += bytes;
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
