#include "services/edge/modules/sessions.h"

#include "common/base/invariant.h"

#include <sodium.h>
#include <stdatomic.h>
#include <string.h>

/* A session is in one of two sets of places, each the other's way out where many sessions have the
 * same set. It takes one cell, or with long texts as many as it needs, one behind the other. A set
 * is a page of memory: all that is read of it to find a session costs one walk of the page table,
 * which with a million sessions costs more than everything else.
 *
 * tags: 0 free, CONTINUED of a cell that holds the rest of one before it, else bits of the hash. */
enum {
    WAYS = 16, /* cells of a set */
    WORDS = SESSION_CELL_BYTES / 8,
    SETS_A_SESSION = 2,
    MEMORY_MIN = 64 * 1024,
    PAGE_BYTES = 4096,
    LINE_BYTES = 64,
    TAG_BITS = 16 /* of the hash in the word that says when it was active last */
};

#define CONTINUED 1u

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

enum { UNSEALED_WORDS = 3, TEXT_AT = offsetof(sealed_t, text) };

_Static_assert((int)TEXT_AT == (int)SESSION_HEAD_BYTES,
               "texts have what the head leaves of the cells");

typedef _Atomic uint64_t word_t;

typedef struct {
    word_t tags[WAYS];
    _Atomic uint32_t generations[WAYS]; /* of sessions whose first set it is */
    word_t cells[WAYS][WORDS];
    unsigned char unused[64];
} set_t;

_Static_assert(sizeof(set_t) == PAGE_BYTES, "a set is a page");

/* The sets follow in the next page. Workers map them anywhere: no pointers. */
struct sessions {
    size_t sets;
    uint64_t key[WORDS]; /* of cell_sum */
    unsigned char secret[SESSION_SECRET_BYTES];
    _Atomic uint64_t count;
};

_Static_assert(sizeof(sessions_t) <= SESSIONS_HEAD_BYTES, "the head has room");

/* What a hash says of where its session is. */
typedef struct {
    size_t sets[SETS_A_SESSION];
    size_t way; /* of them where it is looked for first; its generation in the first set */
    uint64_t tag, bits;
} where_t;

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
    out.tag = words[2] | 2;
    out.bits = words[2] >> (64 - TAG_BITS);
    return out;
}

static set_t *set_of(const sessions_t *self, size_t set)
{
    return (set_t *)((char *)(uintptr_t)self + SESSIONS_HEAD_BYTES) + set;
}

static word_t *tags_of(const sessions_t *self, size_t set)
{
    return set_of(self, set)->tags;
}

static word_t *cell_of(const sessions_t *self, size_t place)
{
    return set_of(self, place / WAYS)->cells[place % WAYS];
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

    if (bytes < MEMORY_MIN)
        return NULL;
    memcpy(self->secret, secret, sizeof(self->secret));
    memcpy(seed, secret, sizeof(self->secret));
    randombytes_buf_deterministic(self->key, sizeof(self->key), seed);
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
 * SipHash over all of it would take half of the time that it takes to find a session. */
static uint64_t check_of(const sessions_t *self, const sealed_t *sealed)
{
    unsigned __int128 sums[SESSION_CELLS_MAX];
    uint64_t check;
    size_t cells = cells_for(text_bytes(sealed->lens));
    unsigned char out[crypto_shorthash_BYTES];

    for (size_t i = 0; i < cells; i++)
        sums[i] = cell_sum(self->key, (const char *)sealed + i * SESSION_CELL_BYTES,
                           i ? 0 : UNSEALED_WORDS);
    crypto_shorthash(out, (const unsigned char *)sums, cells * sizeof(sums[0]), self->secret);
    memcpy(&check, out, sizeof(check));
    return check | 1;
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

/* What lies at a place of its set, if all of it is there as it was sealed. */
static bool load_sealed(const sessions_t *self, size_t set, size_t way, sealed_t *out)
{
    word_t *cell = cell_of(self, set * WAYS + way);
    size_t text;

    load_words(out, cell, 0, WORDS);
    atomic_thread_fence(memory_order_acquire);
    text = text_bytes(out->lens);
    if (text > SESSION_TEXT_MAX || cells_for(text) > WAYS - way)
        return false;
    load_words(out, cell, WORDS, cells_for(text) * WORDS);
    return out->check == check_of(self, out);
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
    const char *cell = (const char *)cell_of(self, where.sets[0] * WAYS + where.way);

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

/* When the session that has the cell was active last. */
static uint64_t worth_of(const sessions_t *self, size_t set, size_t way)
{
    word_t *tags = tags_of(self, set);
    uint64_t tag = atomic_load_explicit(&tags[way], memory_order_relaxed);

    while (tag == CONTINUED && way > 0)
        tag = atomic_load_explicit(&tags[--way], memory_order_relaxed);
    if (tag == 0 || tag == CONTINUED)
        return 0;
    return atomic_load_explicit(&cell_of(self, set * WAYS + way)[1], memory_order_relaxed);
}

static size_t count_free(const sessions_t *self, size_t set)
{
    word_t *tags = tags_of(self, set);
    size_t count = 0;

    for (size_t way = 0; way < WAYS; way++)
        count += !atomic_load_explicit(&tags[way], memory_order_relaxed);
    return count;
}

/* When the session among these cells was active that was active last. */
static uint64_t worth_of_cells(const sessions_t *self, size_t set, size_t way, size_t cells)
{
    uint64_t most = 0;

    for (size_t i = way; i < way + cells; i++) {
        uint64_t one = worth_of(self, set, i);

        most = one > most ? one : most;
    }
    return most;
}

/* The cells of the set, as many as are needed side by side, whose sessions were idle for longest;
 * *worth is that of the one that was active last among them. Of those that are as good the first
 * from where the session is looked for first while half of the set is free; then from its begin.
 * Those of one cell are scattered, so one that needs many side by side may take another's place in
 * a set that is not full: whoever loses it is asked for again. */
static size_t choose_cells(const sessions_t *self, size_t set, size_t wanted, size_t cells,
                           uint64_t *worth)
{
    size_t best = 0, first = count_free(self, set) > WAYS / 2 ? wanted : 0;

    *worth = UINT64_MAX;
    for (size_t i = 0; i < WAYS && *worth; i++) {
        size_t way = (first + i) % WAYS;
        uint64_t most = way + cells > WAYS ? UINT64_MAX : worth_of_cells(self, set, way, cells);

        if (most < *worth) {
            *worth = most;
            best = way;
        }
    }
    return best;
}

/* Of both sets: where nobody loses a place; the first as long as half of it is free, since that is
 * where a session is looked for first; else where more are free. */
static void choose_place(const sessions_t *self, const where_t *where, size_t cells, size_t *set,
                         size_t *way)
{
    uint64_t worth, other_worth;
    size_t other_way = choose_cells(self, where->sets[1], where->way, cells, &other_worth);

    *set = where->sets[0];
    *way = choose_cells(self, *set, where->way, cells, &worth);
    if (other_worth < worth
        || (other_worth == worth && count_free(self, where->sets[0]) < WAYS / 2
            && count_free(self, where->sets[1]) > count_free(self, where->sets[0]))) {
        *set = where->sets[1];
        *way = other_way;
    }
}

/* Cells that the session had already, if they are as many as it needs now. */
static bool find_own_cells(const sessions_t *self, const where_t *where, size_t cells, size_t *set,
                           size_t *way)
{
    for (int s = 0; s < SETS_A_SESSION; s++) {
        word_t *tags = tags_of(self, where->sets[s]);

        for (size_t w = 0; w + cells <= WAYS; w++) {
            size_t more = 1;

            if (atomic_load(&tags[w]) != where->tag)
                continue;
            while (w + more < WAYS && atomic_load(&tags[w + more]) == CONTINUED)
                more++;
            if (more != cells)
                continue;
            *set = where->sets[s];
            *way = w;
            return true;
        }
    }
    return false;
}

static void set_tag(sessions_t *self, word_t *tag, uint64_t value)
{
    uint64_t before = atomic_exchange(tag, value);

    if (!before && value)
        atomic_fetch_add(&self->count, 1);
    else if (before && !value)
        atomic_fetch_sub(&self->count, 1);
}

/* Take the tags of the cells, and those of what they are taken from. */
static void take_cells(sessions_t *self, const where_t *where, size_t set, size_t way, size_t cells)
{
    word_t *tags = tags_of(self, set);

    for (size_t i = 0; i < SETS_A_SESSION; i++) { /* where it was until now */
        word_t *others = tags_of(self, where->sets[i]);

        for (size_t w = 0; w < WAYS; w++)
            if (atomic_load(&others[w]) == where->tag) {
                set_tag(self, &others[w], 0);
                for (size_t k = w + 1; k < WAYS && atomic_load(&others[k]) == CONTINUED; k++)
                    set_tag(self, &others[k], 0);
            }
    }
    for (size_t w = way + cells; w < WAYS && atomic_load(&tags[w]) == CONTINUED; w++)
        set_tag(self, &tags[w], 0);
    for (size_t w = way; w > 0 && atomic_load(&tags[way]) == CONTINUED; w--) {
        bool is_head = atomic_load(&tags[w - 1]) != CONTINUED;

        set_tag(self, &tags[w - 1], 0);
        if (is_head)
            break;
    }
    set_tag(self, &tags[way], where->tag);
    for (size_t i = 1; i < cells; i++)
        set_tag(self, &tags[way + i], CONTINUED);
}

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
static void write_cells(word_t *cell, const sealed_t *sealed, size_t cells)
{
    atomic_store(&cell[0], 0);
    atomic_store(&cell[1], sealed->active);
    atomic_store(&cell[2], sealed->told);
    atomic_thread_fence(memory_order_release);
    store_words(cell, sealed, UNSEALED_WORDS, cells * WORDS);
    atomic_store_explicit(&cell[0], sealed->check, memory_order_release);
}

bool sessions_put(sessions_t *self, const session_t *session)
{
    where_t where = where_is(self, session->hash);
    size_t text = text_bytes(session->lens), cells = cells_for(text), set, way;
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
    if (!find_own_cells(self, &where, cells, &set, &way)) {
        choose_place(self, &where, cells, &set, &way);
        take_cells(self, &where, set, way, cells);
    }
    write_cells(cell_of(self, set * WAYS + way), &sealed, cells);
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
    cell = cell_of(self, session->place);
    if (!raise_time(&cell[1], &where, now_ms, 1))
        return false;
    return raise_time(&cell[2], &where, now_ms, tell_ms);
}
