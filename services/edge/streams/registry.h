/* Index of a worker's open streams (requests that are being served, WebSockets among them) by the
 * entries that they depend on: route, edge, account, any other entry of the config log. Streams
 * with the same key are in one ring, so the cost of finding them does not depend on other streams.
 *
 * All memory is part of the stream: nothing is allocated. Most requests end before anything
 * changes, so a new stream is only appended to a list ("fresh"); it is indexed, by calling keys,
 * when a later change is first searched for. No nginx and no clock in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum stream_kind {
    STREAM_ROUTE,
    STREAM_EDGE,
    STREAM_ACCOUNT,
    STREAM_ENTRY,   /* any other entry of the config log that it depends on: a backend */
    STREAM_SESSION, /* the session that it was admitted by: the bytes of its hash */
    STREAM_ALL      /* every stream, whatever its keys are */
} stream_kind_t;

enum {
    STREAM_KEYS_MAX = 9, /* of one stream */
    STREAM_BUCKETS = 16384
};

/* text is borrowed, and must live as long as the stream is indexed under the key. */
typedef struct stream_key {
    stream_kind_t kind;
    const char *text;
    size_t len;
} stream_key_t;

typedef struct stream_ring {
    struct stream_ring *next, *prev;
} stream_ring_t;

/* Links a stream into the ring of one key. One link of each ring, its head, is also in the chain of
 * the key's hash bucket. */
typedef struct stream_link {
    stream_ring_t ring;
    struct stream_link *chain, **chain_at; /* of a head; chain_at NULL: not a head */
    stream_key_t key;
    uint32_t hash;
    unsigned index; /* in stream_t.links */
    size_t count;   /* of a head: links in the ring */
} stream_link_t;

typedef enum stream_state { STREAM_AWAY, STREAM_FRESH, STREAM_INDEXED } stream_state_t;

/* A stream's place in the registry; all fields are private. The owner zeroes it, except links,
 * before it is added for the first time. */
typedef struct stream {
    stream_state_t state;
    unsigned keys;
    stream_ring_t line; /* in registry_t.fresh or .indexed */
    uint64_t judged;    /* number of the newest change that it was judged by */
    stream_link_t links[STREAM_KEYS_MAX];
} stream_t;

typedef struct registry {
    stream_ring_t fresh; /* in ascending order of judged */
    stream_ring_t indexed;
    size_t indexed_count;
    /* Callback: write the stream's current keys, at most STREAM_KEYS_MAX; returns how many. */
    unsigned (*keys)(const stream_t *stream, stream_key_t *keys);
    stream_link_t *buckets[STREAM_BUCKETS];
} registry_t;

/* Initialise; *self must be all zeros. */
void registry_init(registry_t *self, unsigned (*keys)(const stream_t *, stream_key_t *));

/* Add a stream that was judged by all changes up to number judged, which never decreases from call
 * to call. */
void registry_add(registry_t *self, stream_t *stream, uint64_t judged);
/* Remove a stream; no effect if it is not in the registry. Remove it before its keys change and add
 * it again afterwards: the texts of the old keys are read. */
void registry_remove(registry_t *self, stream_t *stream);

/* Is no stream registered? */
bool registry_is_empty(const registry_t *self);

/* Index the oldest fresh stream, if it was last judged before change number. False: there is none;
 * then registry_count and registry_turn see all streams not judged by that change. */
bool registry_index_one(registry_t *self, uint64_t number);

/* How many indexed streams have the key? */
size_t registry_count(const registry_t *self, const stream_key_t *key);
/* Return the first stream with the key and move it to the end of its ring; NULL: there is none. No
 * iterator is kept between calls: the caller may add and remove any streams. */
stream_t *registry_turn(registry_t *self, const stream_key_t *key);
