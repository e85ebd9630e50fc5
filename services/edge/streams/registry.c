#include "services/edge/streams/registry.h"

#include "common/base/invariant.h"

#include <string.h>

/* ---- rings ---- */

static void ring_init(stream_ring_t *ring)
{
    ring->next = ring->prev = ring;
}

static bool ring_is_empty(const stream_ring_t *ring)
{
    return ring->next == ring;
}

/* Inserts one before another element; before the head means at the end of the ring. */
static void ring_insert(stream_ring_t *before, stream_ring_t *one)
{
    one->prev = before->prev;
    one->next = before;
    before->prev->next = one;
    before->prev = one;
}

static void ring_remove(stream_ring_t *one)
{
    one->prev->next = one->next;
    one->next->prev = one->prev;
    ring_init(one);
}

static stream_t *stream_of_line(stream_ring_t *line)
{
    return (stream_t *)((char *)line - offsetof(stream_t, line));
}

static stream_t *stream_of_link(stream_link_t *link)
{
    stream_link_t *first = link - link->index;

    return (stream_t *)((char *)first - offsetof(stream_t, links));
}

static stream_link_t *link_of_ring(stream_ring_t *ring)
{
    return (stream_link_t *)((char *)ring - offsetof(stream_link_t, ring));
}

/* ---- keys ---- */

/* FNV-1a. No keyed hash is needed: keys are ids that Postern generates. */
static uint32_t hash_of(const stream_key_t *key)
{
    uint32_t hash = 2166136261u ^ (uint32_t)key->kind;

    for (size_t i = 0; i < key->len; i++)
        hash = (hash ^ (unsigned char)key->text[i]) * 16777619u;
    return hash;
}

static stream_link_t *head_of(const registry_t *self, const stream_key_t *key, uint32_t hash)
{
    stream_link_t *head = self->buckets[hash % STREAM_BUCKETS];

    while (head
           && (head->hash != hash || head->key.kind != key->kind || head->key.len != key->len
               || memcmp(head->key.text, key->text, key->len) != 0))
        head = head->chain;
    return head;
}

static void enter_chain(stream_link_t *link, stream_link_t **at)
{
    link->chain = *at;
    link->chain_at = at;
    if (link->chain)
        link->chain->chain_at = &link->chain;
    *at = link;
}

static void leave_chain(stream_link_t *link)
{
    INVARIANT(link->chain_at != NULL);
    *link->chain_at = link->chain;
    if (link->chain)
        link->chain->chain_at = link->chain_at;
    link->chain_at = NULL;
}

/* The next link of the ring takes the head's place in the chain, and its count. Returns the
 * head. */
static stream_link_t *pass_head(stream_link_t *head)
{
    stream_link_t *next = link_of_ring(head->ring.next), **at = head->chain_at;

    if (next == head)
        return head;
    leave_chain(head);
    enter_chain(next, at);
    next->count = head->count;
    return next;
}

static void tie(registry_t *self, stream_t *stream, unsigned index, const stream_key_t *key)
{
    stream_link_t *link = &stream->links[index], *head;
    uint32_t hash = hash_of(key);

    *link = (stream_link_t){.key = *key, .hash = hash, .index = index};
    ring_init(&link->ring);
    head = head_of(self, key, hash);
    if (head) {
        ring_insert(&head->ring, &link->ring);
        head->count++;
    } else {
        link->count = 1;
        enter_chain(link, &self->buckets[hash % STREAM_BUCKETS]);
    }
}

static void untie(registry_t *self, stream_link_t *link)
{
    stream_link_t *head = link->chain_at ? link : head_of(self, &link->key, link->hash);

    INVARIANT(head && head->count > 0);
    if (head == link)
        head = pass_head(link);
    if (head == link)
        leave_chain(link);
    head->count--;
    ring_remove(&link->ring);
}

static void leave_rings(registry_t *self, stream_t *stream)
{
    for (unsigned i = 0; i < stream->keys; i++)
        untie(self, &stream->links[i]);
    stream->keys = 0;
}

static void enter_rings(registry_t *self, stream_t *stream)
{
    stream_key_t keys[STREAM_KEYS_MAX];

    stream->keys = self->keys(stream, keys);
    INVARIANT(stream->keys <= STREAM_KEYS_MAX);
    for (unsigned i = 0; i < stream->keys; i++)
        tie(self, stream, i, &keys[i]);
}

/* ---- streams ---- */

void registry_init(registry_t *self, unsigned (*keys)(const stream_t *, stream_key_t *))
{
    ring_init(&self->fresh);
    ring_init(&self->indexed);
    self->keys = keys;
}

void registry_add(registry_t *self, stream_t *stream, uint64_t judged)
{
    INVARIANT(stream->state == STREAM_AWAY);
    stream->state = STREAM_FRESH;
    stream->judged = judged;
    ring_insert(&self->fresh, &stream->line);
}

void registry_remove(registry_t *self, stream_t *stream)
{
    if (stream->state == STREAM_AWAY)
        return;
    if (stream->state == STREAM_INDEXED) {
        self->indexed_count--;
        leave_rings(self, stream);
    }
    ring_remove(&stream->line);
    stream->state = STREAM_AWAY;
}

bool registry_is_empty(const registry_t *self)
{
    return ring_is_empty(&self->fresh) && ring_is_empty(&self->indexed);
}

bool registry_index_one(registry_t *self, uint64_t number)
{
    stream_t *stream;

    if (ring_is_empty(&self->fresh))
        return false;
    stream = stream_of_line(self->fresh.next);
    if (stream->judged >= number)
        return false;
    ring_remove(&stream->line);
    ring_insert(&self->indexed, &stream->line);
    stream->state = STREAM_INDEXED;
    self->indexed_count++;
    enter_rings(self, stream);
    return true;
}

/* ---- search ---- */

size_t registry_count(const registry_t *self, const stream_key_t *key)
{
    const stream_link_t *head;

    if (key->kind == STREAM_ALL)
        return self->indexed_count;
    head = head_of(self, key, hash_of(key));
    return head ? head->count : 0;
}

static stream_t *turn_all(registry_t *self)
{
    stream_ring_t *first = self->indexed.next;

    if (ring_is_empty(&self->indexed))
        return NULL;
    ring_remove(first);
    ring_insert(&self->indexed, first);
    return stream_of_line(first);
}

stream_t *registry_turn(registry_t *self, const stream_key_t *key)
{
    stream_link_t *head;

    if (key->kind == STREAM_ALL)
        return turn_all(self);
    head = head_of(self, key, hash_of(key));
    if (!head)
        return NULL;
    pass_head(head);
    return stream_of_link(head);
}
