#include "services/edge/modules/vouched.h"

#include <stdlib.h>
#include <string.h>

enum {
    TYPICAL_BYTES = 1024, /* of one, for the number of buckets */
    BUCKETS_MIN = 16
};

typedef struct entry entry_t;

struct entry {
    entry_t *chain;         /* of its bucket */
    entry_t *older, *newer; /* by when they were looked for last */
    unsigned char hash[VOUCHED_HASH_BYTES];
    uint64_t said;
    int64_t renew_ms, until_ms;
    size_t len;
    char jwt[];
};

struct vouched {
    size_t most, bytes, count, buckets; /* buckets is a power of two */
    entry_t *oldest, *newest;
    entry_t *bucket[];
};

vouched_t *vouched_new(size_t bytes)
{
    size_t buckets = BUCKETS_MIN;
    vouched_t *self;

    while (buckets < bytes / TYPICAL_BYTES)
        buckets *= 2;
    self = calloc(1, sizeof(*self) + buckets * sizeof(entry_t *));
    if (!self)
        return NULL;
    self->most = bytes;
    self->buckets = buckets;
    return self;
}

static size_t size_of(size_t len)
{
    return sizeof(entry_t) + len;
}

/* Hashes are even, and nobody who asks chooses one. */
static entry_t **place_of(vouched_t *self, const unsigned char *hash)
{
    size_t number;
    entry_t **place;

    memcpy(&number, hash, sizeof(number));
    place = &self->bucket[number & (self->buckets - 1)];
    while (*place && memcmp((*place)->hash, hash, VOUCHED_HASH_BYTES) != 0)
        place = &(*place)->chain;
    return place;
}

/* ---- the order ---- */

static void order_remove(vouched_t *self, entry_t *entry)
{
    *(entry->older ? &entry->older->newer : &self->oldest) = entry->newer;
    *(entry->newer ? &entry->newer->older : &self->newest) = entry->older;
}

static void order_append(vouched_t *self, entry_t *entry)
{
    entry->older = self->newest;
    entry->newer = NULL;
    *(self->newest ? &self->newest->newer : &self->oldest) = entry;
    self->newest = entry;
}

static void entry_remove(vouched_t *self, entry_t **place)
{
    entry_t *entry = *place;

    *place = entry->chain;
    order_remove(self, entry);
    self->bytes -= size_of(entry->len);
    self->count--;
    free(entry);
}

void vouched_destroy(vouched_t **self_p)
{
    vouched_t *self = *self_p;

    *self_p = NULL;
    while (self && self->oldest)
        vouched_drop(self, self->oldest->hash);
    free(self);
}

/* ---- what is kept ---- */

const char *vouched_find(vouched_t *self, const unsigned char *hash, uint64_t said, int64_t now_ms,
                         int64_t retry_ms, size_t *ret_len, bool *ret_late)
{
    entry_t **place = place_of(self, hash), *entry = *place;

    *ret_late = false;
    if (!entry)
        return NULL;
    if (now_ms >= entry->until_ms || said != entry->said) {
        entry_remove(self, place);
        return NULL;
    }
    order_remove(self, entry);
    order_append(self, entry);
    if (now_ms >= entry->renew_ms) {
        *ret_late = true;
        entry->renew_ms = now_ms + retry_ms;
    }
    *ret_len = entry->len;
    return entry->jwt;
}

void vouched_put(vouched_t *self, const unsigned char *hash, uint64_t said, const char *jwt,
                 size_t len, int64_t renew_ms, int64_t until_ms)
{
    entry_t **place, *entry;

    vouched_drop(self, hash);
    if (!len || len > VOUCHED_JWT_MAX || size_of(len) > self->most)
        return;
    while (self->oldest && self->bytes + size_of(len) > self->most)
        vouched_drop(self, self->oldest->hash);
    entry = malloc(size_of(len));
    if (!entry)
        return;
    *entry = (entry_t){.said = said, .renew_ms = renew_ms, .until_ms = until_ms, .len = len};
    memcpy(entry->hash, hash, VOUCHED_HASH_BYTES);
    memcpy(entry->jwt, jwt, len);
    place = place_of(self, hash);
    entry->chain = *place;
    *place = entry;
    order_append(self, entry);
    self->bytes += size_of(len);
    self->count++;
}

void vouched_drop(vouched_t *self, const unsigned char *hash)
{
    entry_t **place = place_of(self, hash);

    if (*place)
        entry_remove(self, place);
}

size_t vouched_bytes(const vouched_t *self)
{
    return self->bytes;
}

size_t vouched_count(const vouched_t *self)
{
    return self->count;
}
