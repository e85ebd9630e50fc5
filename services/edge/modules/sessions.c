#include "services/edge/modules/sessions_internal.h"

#include "common/base/invariant.h"

#include <sodium.h>
#include <string.h>

enum {
    MEMORY_MIN = 64 * 1024,
    LINE_BYTES = 64,
    TAG_BITS = 16 /* of the hash in the word that says when it was active last */
};

_Static_assert(SESSION_CELL_BYTES % 16 == 0, "cells are pairs of words");

/* How a session lies in its cells. active and told change without a new seal: each is a time and
 * bits of the hash, so that no other session's is taken for it. */
typedef struct {
    uint64_t check;
    uint64_t active, told; /* not sealed */
    unsigned char hash[SESSION_HASH_BYTES];
    unsigned char bound[SESSION_BOUND_BYTES];
    int64_t expires_ms, due_ms, asked_ms;
    uint32_t inactivity_s, generation;
    uint16_t lens[SESSION_TEXTS];
    char text[SESSION_TEXT_MAX];
} sealed_t;

enum { TOLD_WORD = 2, UNSEALED_WORDS = 3, TEXT_AT = offsetof(sealed_t, text) };

_Static_assert((int)TEXT_AT == (int)SESSION_HEAD_BYTES,
               "texts have what the head leaves of the cells");

static size_t share_of(uint64_t random, size_t count)
{
    return (size_t)((unsigned __int128)random * count >> 64);
}

static where_t where_is(const sessions_t *self, const unsigned char *hash)
{
    uint64_t words[SESSION_HASH_BYTES / 8];
    where_t out;

    memcpy(words, hash, sizeof(words));
    out.sets[0] = share_of(words[3], self->sets); /* with the generation, by the end alone */
    out.sets[1] = share_of(words[1], self->sets);
    out.way = words[3] % WAYS;
    out.tag = words[2] | HEAD_BIT;
    out.bits = words[2] >> (64 - TAG_BITS);
    return out;
}

static _Atomic uint32_t *generation_of(const sessions_t *self, const where_t *where)
{
    return &set_of(self, where->sets[0])->generations[where->way];
}

/* ---- start ---- */

sessions_t *sessions_init(void *memory, size_t bytes, const unsigned char *secret)
{
    sessions_t *self = memory;
    unsigned char seed[randombytes_SEEDBYTES] = {0};
    struct {
        uint64_t key[WORDS];
        unsigned __int128 last[1 + 2 * SESSION_CELLS_MAX];
    } keys;

    if (bytes < MEMORY_MIN)
        return NULL;
    memcpy(seed, secret, SESSION_SECRET_BYTES);
    randombytes_buf_deterministic(&keys, sizeof(keys), seed);
    memcpy(self->key, keys.key, sizeof(self->key));
    self->last_key = keys.last[0];
    memcpy(self->last_keys, keys.last + 1, sizeof(self->last_keys));
    self->sets = bytes / sizeof(set_t);
    return self;
}

size_t sessions_places(const sessions_t *self)
{
    return self->sets * WAYS;
}

size_t sessions_count(const sessions_t *self)
{
    return (size_t)atomic_load(&self->count);
}

/* ---- the seal ---- */

static size_t text_bytes(const uint16_t *lens)
{
    size_t sum = 0;

    for (int i = 0; i < SESSION_TEXTS; i++)
        sum += lens[i];
    return sum;
}

static size_t cells_for(size_t text)
{
    return (TEXT_AT + text + SESSION_CELL_BYTES - 1) / SESSION_CELL_BYTES;
}

static uint64_t word_at(const char *cell, size_t i)
{
    uint64_t word;

    memcpy(&word, cell + i * sizeof(word), sizeof(word));
    return word;
}

/* NH with words of 64 bits (RFC 4418, 5.2.2): two cells have the same one by a chance of 1 in 2^64,
 * for whoever does not know the key. The first words count as 0, as many as skip says. */
static unsigned __int128 cell_sum(const uint64_t *key, const char *cell, size_t skip)
{
    unsigned __int128 sum = 0;
    size_t i = 0;

    for (; i + 2 <= skip; i += 2)
        sum += (unsigned __int128)key[i] * key[i + 1];
    if (i < skip) {
        sum += (unsigned __int128)key[i] * (word_at(cell, i + 1) + key[i + 1]);
        i += 2;
    }
    for (; i < WORDS; i += 2)
        sum += (unsigned __int128)(word_at(cell, i) + key[i]) * (word_at(cell, i + 1) + key[i + 1]);
    return sum;
}

/* Over all of the cells but the words that change without it. Never 0, which is that of nothing.
 * Of the cells' sums by multiplications, strongly universal (Dietzfelbinger, "Universal hashing and
 * k-wise independent random variables via integer arithmetic without primes", 1996). */
static uint64_t check_of(const sessions_t *self, const sealed_t *sealed)
{
    unsigned __int128 check = self->last_key;
    size_t cells = cells_for(text_bytes(sealed->lens));

    for (size_t i = 0; i < cells; i++) {
        unsigned __int128 sum = cell_sum(self->key, (const char *)sealed + i * SESSION_CELL_BYTES,
                                         i ? 0 : UNSEALED_WORDS);

        check += self->last_keys[2 * i] * (uint64_t)sum;
        check += self->last_keys[2 * i + 1] * (uint64_t)(sum >> 64);
    }
    return (uint64_t)(check >> 64) | 1;
}

/* Word by word: another worker may write at the same time. */
static void load_words(void *out, word_t *from, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        uint64_t word = atomic_load_explicit(&from[i], memory_order_relaxed);

        memcpy((char *)out + i * 8, &word, sizeof(word));
    }
}

static void store_words(word_t *to, const void *from, size_t begin, size_t end)
{
    for (size_t i = begin; i < end; i++) {
        uint64_t word;

        memcpy(&word, (const char *)from + i * 8, sizeof(word));
        atomic_store_explicit(&to[i], word, memory_order_relaxed);
    }
}

/* The rest of a session of so many cells, whose head is loaded. False: it is not there as a
 * whole. */
static bool load_rest(const sessions_t *self, size_t set, size_t head, size_t count, sealed_t *out)
{
    cells_t cells = {.set = set, .count = count, .ways = {head}};

    if (!cells_find_rest(self, &cells))
        return false;
    for (size_t i = 1; i < count; i++)
        load_words((char *)out + i * SESSION_CELL_BYTES, cell_of(self, set, cells.ways[i]), 0,
                   WORDS);
    return true;
}

/* The session whose head lies at a place of its set, if all of it is there as it was sealed. */
static bool load_sealed(const sessions_t *self, size_t set, size_t way, sealed_t *out)
{
    size_t text, count;

    load_words(out, cell_of(self, set, way), 0, WORDS);
    atomic_thread_fence(memory_order_acquire);
    text = text_bytes(out->lens);
    if (text > SESSION_TEXT_MAX)
        return false;
    count = cells_for(text);
    return (count == 1 || load_rest(self, set, way, count, out))
           && out->check == check_of(self, out);
}

static bool is_current(const sessions_t *self, const where_t *where, uint32_t generation)
{
    return atomic_load(generation_of(self, where)) == generation;
}

/* ---- find ---- */

static int64_t time_in(uint64_t word)
{
    return (int64_t)(word >> TAG_BITS);
}

static uint64_t word_of(const where_t *where, int64_t ms)
{
    return (uint64_t)ms << TAG_BITS | where->bits;
}

static bool is_of(uint64_t word, const where_t *where)
{
    return (word & ((1u << TAG_BITS) - 1)) == where->bits;
}

/* The place of a session, in SETS_A_SESSION sets; -1: it has none. */
static int64_t find_place(const sessions_t *self, const where_t *where, const unsigned char *hash,
                          sealed_t *sealed)
{
    for (int s = 0; s < SETS_A_SESSION; s++) {
        word_t *tags = tags_of(self, where->sets[s]);

        for (size_t i = 0; i < WAYS; i++) {
            size_t way = (where->way + i) % WAYS;

            if (atomic_load_explicit(&tags[way], memory_order_relaxed) == where->tag
                && load_sealed(self, where->sets[s], way, sealed)
                && !memcmp(sealed->hash, hash, SESSION_HASH_BYTES) && is_of(sealed->active, where)
                && is_current(self, where, sealed->generation))
                return (int64_t)(where->sets[s] * WAYS + way);
        }
    }
    return -1;
}

/* The place where most are: another page would be one more walk of the page table for nothing, and
 * whoever looked at the tags first would wait for them. */
void sessions_expect(const sessions_t *self, const unsigned char *hash)
{
    where_t where = where_is(self, hash);
    word_t *tags = tags_of(self, where.sets[0]);
    const char *cell = (const char *)cell_of(self, where.sets[0], where.way);

    __builtin_prefetch(tags);
    __builtin_prefetch(tags + WAYS / 2);
    __builtin_prefetch(generation_of(self, &where));
    for (size_t at = 0; at < SESSION_CELL_BYTES; at += LINE_BYTES)
        __builtin_prefetch(cell + at);
}

bool sessions_find(const sessions_t *self, const unsigned char *hash, session_t *out)
{
    where_t where = where_is(self, hash);
    sealed_t sealed;
    int64_t place = find_place(self, &where, hash, &sealed);

    if (place < 0)
        return false;
    memcpy(out->hash, hash, sizeof(out->hash));
    memcpy(out->bound, sealed.bound, sizeof(out->bound));
    out->expires_ms = sealed.expires_ms;
    out->due_ms = sealed.due_ms;
    out->asked_ms = sealed.asked_ms;
    out->last_active_ms = time_in(sealed.active);
    out->inactivity_s = sealed.inactivity_s;
    out->generation = sealed.generation;
    memcpy(out->lens, sealed.lens, sizeof(out->lens));
    memcpy(out->text, sealed.text, text_bytes(sealed.lens));
    out->place = (uint32_t)place;
    return true;
}

/* ---- put ---- */

static void seal(const sessions_t *self, const session_t *session, sealed_t *out)
{
    memset(out, 0, cells_for(text_bytes(session->lens)) * SESSION_CELL_BYTES);
    memcpy(out->hash, session->hash, sizeof(out->hash));
    memcpy(out->bound, session->bound, sizeof(out->bound));
    out->expires_ms = session->expires_ms;
    out->due_ms = session->due_ms;
    out->asked_ms = session->asked_ms;
    out->inactivity_s = session->inactivity_s;
    out->generation = session->generation;
    memcpy(out->lens, session->lens, sizeof(out->lens));
    memcpy(out->text, session->text, text_bytes(session->lens));
    out->check = check_of(self, out);
}

/* The check goes first and comes back last: until then nobody takes the place for anything. */
static void write_cells(const sessions_t *self, const cells_t *cells, const sealed_t *sealed)
{
    word_t *head = cell_of(self, cells->set, cells->ways[0]);

    atomic_store(&head[0], 0);
    atomic_store(&head[ACTIVE_WORD], sealed->active);
    atomic_store(&head[TOLD_WORD], sealed->told);
    atomic_thread_fence(memory_order_release);
    store_words(head, sealed, UNSEALED_WORDS, WORDS);
    for (size_t i = 1; i < cells->count; i++)
        store_words(cell_of(self, cells->set, cells->ways[i]),
                    (const char *)sealed + i * SESSION_CELL_BYTES, 0, WORDS);
    atomic_store_explicit(&head[0], sealed->check, memory_order_release);
}

bool sessions_put(sessions_t *self, const session_t *session)
{
    where_t where = where_is(self, session->hash);
    size_t text = text_bytes(session->lens);
    cells_t cells = {.count = cells_for(text)};
    sealed_t sealed, known;

    if (text > SESSION_TEXT_MAX || !is_current(self, &where, session->generation))
        return false;
    seal(self, session, &sealed);
    sealed.active = word_of(&where, session->last_active_ms);
    sealed.told = sealed.active;
    if (find_place(self, &where, session->hash, &known) >= 0) {
        sealed.active = known.active > sealed.active ? known.active : sealed.active;
        sealed.told = known.told > sealed.told ? known.told : sealed.told;
    }
    if (!sessions_room_find_own(self, &where, &cells))
        sessions_room_take(self, &where, &cells);
    write_cells(self, &cells, &sealed);
    return is_current(self, &where, session->generation);
}

/* ---- end and touch ---- */

uint32_t sessions_generation(const sessions_t *self, const unsigned char *hash)
{
    where_t where = where_is(self, hash);

    return atomic_load(generation_of(self, &where));
}

/* Another session may have the same generation: it is asked for again, and goes on. */
void sessions_end(sessions_t *self, const unsigned char *hash)
{
    where_t where = where_is(self, hash);

    atomic_fetch_add(generation_of(self, &where), 1);
}

/* Raise a time of the session, by at least step. False: another worker did, or another session has
 * the place by now. */
static bool raise_time(word_t *word, const where_t *where, int64_t now_ms, int64_t step)
{
    uint64_t old = atomic_load(word);

    return is_of(old, where) && now_ms - time_in(old) >= step
           && atomic_compare_exchange_strong(word, &old, word_of(where, now_ms));
}

bool sessions_touch(sessions_t *self, const session_t *session, int64_t now_ms, int64_t tell_ms)
{
    where_t where = where_is(self, session->hash);
    word_t *cell;

    INVARIANT(session->place < self->sets * WAYS);
    cell = cell_of(self, session->place / WAYS, session->place % WAYS);
    if (!raise_time(&cell[ACTIVE_WORD], &where, now_ms, 1))
        return false;
    return raise_time(&cell[TOLD_WORD], &where, now_ms, tell_ms);
}
