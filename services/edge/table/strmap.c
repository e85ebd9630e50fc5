#include "services/edge/table/strmap.h"

#include "common/base/invariant.h"
#include "services/edge/table/slab.h"

#include <string.h>

enum { SEGMENT = 256, FIRST_BUCKETS = 16, DIRECTORY = 4096 }; /* up to a million buckets */
enum { FIRST_SEGMENTS = 4 };

typedef struct node {
    struct node *next;
    void *value;
    uint32_t hash, len;
    char key[];
} node_t;

struct strmap {
    node_t ***segments; /* room for `room` of them, which doubles: most maps are small */
    size_t room;
    size_t popped;                       /* buckets that strmap_pop found empty */
    size_t buckets, round, split, count; /* round: a power of two; buckets = round + split */
    uint32_t seed;
};

/* Eight bytes at a time, multiplied and folded; the low bits pick the bucket. */
static uint64_t mix_word(uint64_t h, uint64_t word)
{
    h = (h ^ word) * 0x9e3779b97f4a7c15u;
    return h ^ (h >> 32);
}

static uint32_t hash_of(const strmap_t *self, const char *key, size_t len)
{
    uint64_t h = self->seed ^ ((uint64_t)len << 32), word = 0;

    for (; len >= sizeof(word); key += sizeof(word), len -= sizeof(word)) {
        memcpy(&word, key, sizeof(word));
        h = mix_word(h, word);
    }
    word = 0;
    memcpy(&word, key, len);
    h = mix_word(h, word);
    return (uint32_t)(h ^ (h >> 16));
}

static node_t **bucket_at(const strmap_t *self, size_t i)
{
    return &self->segments[i / SEGMENT][i % SEGMENT];
}

static node_t **bucket_of(const strmap_t *self, uint32_t hash)
{
    size_t i = hash & (self->round - 1);

    if (i < self->split)
        i = hash & (2 * self->round - 1);
    return bucket_at(self, i);
}

strmap_t *strmap_new(void)
{
    strmap_t *self = slab_alloc(sizeof(*self));

    self->room = FIRST_SEGMENTS;
    self->segments = slab_alloc(self->room * sizeof(*self->segments));
    self->segments[0] = slab_alloc(SEGMENT * sizeof(node_t *));
    self->round = self->buckets = FIRST_BUCKETS;
    self->seed = (uint32_t)((uintptr_t)self >> 4);
    return self;
}

void strmap_destroy(strmap_t **self_p)
{
    strmap_t *self = *self_p;

    if (!self)
        return;
    for (size_t i = 0; i < self->buckets; i++)
        for (node_t *node = *bucket_at(self, i), *next; node; node = next) {
            next = node->next;
            slab_free(node);
        }
    for (size_t i = 0; i < self->room; i++)
        slab_free(self->segments[i]);
    slab_free(self->segments);
    slab_free(self);
    *self_p = NULL;
}

static node_t **find_node(const strmap_t *self, uint32_t hash, const char *key, size_t len)
{
    node_t **at = bucket_of(self, hash);

    while (*at && ((*at)->hash != hash || (*at)->len != len || memcmp((*at)->key, key, len)))
        at = &(*at)->next;
    return at;
}

void *strmap_get(const strmap_t *self, const char *key, size_t len)
{
    node_t *node = *find_node(self, hash_of(self, key, len), key, len);

    return node ? node->value : NULL;
}

/* Room for segment i: pointers only, so this is never a long pause. */
static void make_segment(strmap_t *self, size_t i)
{
    INVARIANT(i <= self->room);
    if (i == self->room) {
        node_t ***more = slab_alloc(2 * self->room * sizeof(*more));

        memcpy(more, self->segments, self->room * sizeof(*more));
        slab_free(self->segments);
        self->segments = more;
        self->room *= 2;
    }
    if (!self->segments[i])
        self->segments[i] = slab_alloc(SEGMENT * sizeof(node_t *));
}

/* One more bucket: divide bucket `split` between itself and the new one. */
static void add_bucket(strmap_t *self)
{
    size_t fresh = self->buckets;
    node_t **old, *node, *next;

    if (fresh / SEGMENT >= DIRECTORY)
        return; /* longer chains, nothing worse */
    INVARIANT(self->split < self->round && fresh == self->round + self->split);
    make_segment(self, fresh / SEGMENT);
    old = bucket_at(self, self->split);
    node = *old;
    *old = NULL;
    self->buckets++;
    if (++self->split == self->round) {
        self->round *= 2;
        self->split = 0;
    }
    for (; node; node = next) {
        node_t **at = bucket_of(self, node->hash);

        next = node->next;
        node->next = *at;
        *at = node;
    }
}

void *strmap_put(strmap_t *self, const char *key, size_t len, void *value)
{
    uint32_t hash = hash_of(self, key, len);
    node_t **at = find_node(self, hash, key, len), *node;

    if (*at) {
        void *old = (*at)->value;

        (*at)->value = value;
        return old;
    }
    INVARIANT(len <= UINT32_MAX);
    node = slab_alloc(sizeof(*node) + len + 1);
    node->hash = hash;
    node->len = (uint32_t)len;
    memcpy(node->key, key, len);
    node->value = value;
    *at = node;
    if (++self->count > self->buckets)
        add_bucket(self);
    return NULL;
}

void *strmap_del(strmap_t *self, const char *key, size_t len)
{
    node_t **at = find_node(self, hash_of(self, key, len), key, len), *node = *at;
    void *value;

    if (!node)
        return NULL;
    INVARIANT(self->count > 0);
    *at = node->next;
    value = node->value;
    slab_free(node);
    self->count--;
    return value;
}

void *strmap_pop(strmap_t *self)
{
    node_t **at, *node;
    size_t end;
    void *value;

    if (!self->count)
        return NULL;
    end = self->popped + self->buckets;
    while (!*(at = bucket_at(self, self->popped % self->buckets))) {
        self->popped++;
        INVARIANT(self->popped < end); /* count says that there is one */
    }
    node = *at;
    *at = node->next;
    value = node->value;
    slab_free(node);
    self->count--;
    return value;
}

size_t strmap_count(const strmap_t *self)
{
    return self->count;
}

void *strmap_next(const strmap_t *self, size_t *cursor_bucket, void **cursor_node)
{
    node_t *node = *cursor_node;

    if (node)
        node = node->next;
    while (!node && *cursor_bucket < self->buckets)
        node = *bucket_at(self, (*cursor_bucket)++);
    *cursor_node = node;
    return node ? node->value : NULL;
}
