/* How sessions lie in their table: for its two files. sessions.c seals, finds and writes them,
 * sessions_room.c decides which cells they have.
 *
 * A session is in one of two sets of places, each the other's way out where many sessions have the
 * same set. It takes one cell, or with long texts as many as it needs, whichever of the set these
 * are: the first is its head, and the tags of the rest say whose they are. A set is a page of
 * memory: all that is read of it to find a session costs one walk of the page table, which with a
 * million sessions costs more than everything else. */
#pragma once

#include "services/edge/modules/sessions.h"

#include <stdatomic.h>

enum {
    WAYS = 16, /* cells of a set */
    WORDS = SESSION_CELL_BYTES / 8,
    SETS_A_SESSION = 2,
    PAGE_BYTES = 4096,
    ACTIVE_WORD = 1 /* of a head: when its session was active last, and bits of its hash */
};

typedef _Atomic uint64_t word_t;

/* tags: 0 free, else with HEAD_BIT bits of the hash, and without it which cell of which head. */
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
    uint64_t key[WORDS];                                          /* of cell_sum */
    unsigned __int128 last_key, last_keys[2 * SESSION_CELLS_MAX]; /* of check_of */
    _Atomic uint64_t count;
};

_Static_assert(sizeof(sessions_t) <= SESSIONS_HEAD_BYTES, "the head has room");

/* What a hash says of where its session is. */
typedef struct {
    size_t sets[SETS_A_SESSION];
    size_t way; /* of them where it is looked for first; its generation in the first set */
    uint64_t tag, bits;
} where_t;

/* Cells of a session: its head, and the rest in their order. */
typedef struct {
    size_t set, count, ways[SESSION_CELLS_MAX];
} cells_t;

static inline set_t *set_of(const sessions_t *self, size_t set)
{
    return (set_t *)((char *)(uintptr_t)self + SESSIONS_HEAD_BYTES) + set;
}

static inline word_t *tags_of(const sessions_t *self, size_t set)
{
    return set_of(self, set)->tags;
}

static inline word_t *cell_of(const sessions_t *self, size_t set, size_t way)
{
    return set_of(self, set)->cells[way];
}

/* ---- tags ---- */

enum { HEAD_BIT = 2, REST = 1, HEAD_SHIFT = 8, NUMBER_SHIFT = 16 };

/* Of the cell of that number, 1 and up, of the session whose head is there. */
static inline uint64_t tag_of_rest(size_t head, size_t number)
{
    return REST | (uint64_t)head << HEAD_SHIFT | (uint64_t)number << NUMBER_SHIFT;
}

static inline bool is_rest_of(uint64_t tag, size_t head)
{
    return (tag & ((1u << NUMBER_SHIFT) - 1)) == tag_of_rest(head, 0);
}

/* Where the head of whoever has the cell is; there need not be one any more. */
static inline size_t head_of(uint64_t tag, size_t way)
{
    return tag & HEAD_BIT ? way : (tag >> HEAD_SHIFT) % WAYS;
}

/* Complete *cells, of which set, count and head are known. False: it is not there as a whole. */
static inline bool cells_find_rest(const sessions_t *self, cells_t *cells)
{
    word_t *tags = tags_of(self, cells->set);
    unsigned missing = (1u << cells->count) - 2; /* a bit for each number */

    for (size_t way = 0; way < WAYS; way++) {
        uint64_t tag = atomic_load_explicit(&tags[way], memory_order_relaxed);
        size_t number = tag >> NUMBER_SHIFT;

        if (!is_rest_of(tag, cells->ways[0]))
            continue;
        if (number >= cells->count || !(missing >> number & 1))
            return false;
        missing &= ~(1u << number);
        cells->ways[number] = way;
    }
    return !missing;
}

/* ---- room (sessions_room.c) ---- */

/* Cells of the set of a session of that tag, if they are as many as it needs now; set and ways of
 * *cells are set. */
bool sessions_room_find_own(const sessions_t *self, const where_t *where, cells_t *cells);

/* Take as many cells as it needs, in either of its sets; set and ways of *cells are set. Whoever
 * had one of them has none any more, and so it is with those that the session had until now. */
void sessions_room_take(sessions_t *self, const where_t *where, cells_t *cells);
