/* Which cells a session has, and who gives way where there are not enough. Other workers may do
 * the same with the same set at once: then two sessions have a cell, the seal of one of them is
 * broken, and identity is asked for it. What is left of it gives way as if it were free. */
#include "services/edge/modules/sessions_internal.h"

/* ---- choose ---- */

/* When the session that has the cell was active last; 0: none has, or the one of that tag, which is
 * to have other cells. */
static uint64_t worth_of(const sessions_t *self, size_t set, size_t way, uint64_t own)
{
    word_t *tags = tags_of(self, set);
    uint64_t tag = atomic_load_explicit(&tags[way], memory_order_relaxed);
    size_t head = head_of(tag, way);

    if (tag)
        tag = atomic_load_explicit(&tags[head], memory_order_relaxed);
    if (!(tag & HEAD_BIT) || tag == own)
        return 0;
    return atomic_load_explicit(&cell_of(self, set, head)[ACTIVE_WORD], memory_order_relaxed);
}

static size_t count_free(const sessions_t *self, size_t set)
{
    word_t *tags = tags_of(self, set);
    size_t count = 0;

    for (size_t way = 0; way < WAYS; way++)
        count += !atomic_load_explicit(&tags[way], memory_order_relaxed);
    return count;
}

/* The cells of the set whose sessions were idle for longest, as many as are needed; the worth of
 * the one that was active last among them. Of those that are as good the first from where the
 * session is looked for first while half of the set is free; then from its begin. */
static uint64_t choose_cells(const sessions_t *self, const where_t *where, cells_t *cells)
{
    const size_t first = count_free(self, cells->set) > WAYS / 2 ? where->way : 0;
    uint64_t worths[WAYS], worth = 0;

    for (size_t way = 0; way < WAYS; way++)
        worths[way] = worth_of(self, cells->set, way, where->tag);
    for (size_t n = 0; n < cells->count; n++) {
        size_t best = WAYS;

        for (size_t i = 0; i < WAYS; i++) {
            size_t way = (first + i) % WAYS;

            if (worths[way] != UINT64_MAX && (best == WAYS || worths[way] < worths[best]))
                best = way;
        }
        worth = worths[best];
        worths[best] = UINT64_MAX; /* it is chosen */
        cells->ways[n] = best;
    }
    return worth;
}

/* Of both sets: where nobody loses a place; the first as long as half of it is free, since that is
 * where a session is looked for first; else where more are free. */
static void choose_place(const sessions_t *self, const where_t *where, cells_t *cells)
{
    cells_t other = {.set = where->sets[1], .count = cells->count};
    uint64_t worth, other_worth = choose_cells(self, where, &other);

    cells->set = where->sets[0];
    worth = choose_cells(self, where, cells);
    if (other_worth < worth
        || (other_worth == worth && count_free(self, where->sets[0]) < WAYS / 2
            && count_free(self, where->sets[1]) > count_free(self, where->sets[0])))
        *cells = other;
}

bool sessions_room_find_own(const sessions_t *self, const where_t *where, cells_t *cells)
{
    size_t heads = 0;

    for (size_t s = 0; s < SETS_A_SESSION; s++) {
        word_t *tags = tags_of(self, where->sets[s]);

        if (s && where->sets[s] == where->sets[0])
            break;
        for (size_t way = 0; way < WAYS; way++) {
            if (atomic_load(&tags[way]) != where->tag)
                continue;
            heads++;
            cells->set = where->sets[s];
            cells->ways[0] = way;
        }
    }
    return heads == 1 && cells_find_rest(self, cells);
}

/* ---- take ---- */

static void set_tag(sessions_t *self, word_t *tag, uint64_t value)
{
    uint64_t before = atomic_exchange(tag, value);

    if (!before && value)
        atomic_fetch_add(&self->count, 1);
    else if (before && !value)
        atomic_fetch_sub(&self->count, 1);
}

/* Free all cells of the session whose head is there, or was. */
static void free_cells(sessions_t *self, size_t set, size_t head)
{
    word_t *tags = tags_of(self, set);

    if (atomic_load(&tags[head]) & HEAD_BIT)
        set_tag(self, &tags[head], 0);
    for (size_t way = 0; way < WAYS; way++)
        if (is_rest_of(atomic_load(&tags[way]), head))
            set_tag(self, &tags[way], 0);
}

void sessions_room_take(sessions_t *self, const where_t *where, cells_t *cells)
{
    word_t *tags;

    choose_place(self, where, cells);
    for (size_t s = 0; s < SETS_A_SESSION; s++) { /* where it was until now */
        tags = tags_of(self, where->sets[s]);
        for (size_t way = 0; way < WAYS; way++)
            if (atomic_load(&tags[way]) == where->tag)
                free_cells(self, where->sets[s], way);
    }
    tags = tags_of(self, cells->set);
    for (size_t i = 0; i < cells->count; i++) {
        uint64_t tag = atomic_load(&tags[cells->ways[i]]);

        if (tag)
            free_cells(self, cells->set, head_of(tag, cells->ways[i]));
    }
    free_cells(self, cells->set, cells->ways[0]); /* what a worker that died left of another */
    set_tag(self, &tags[cells->ways[0]], where->tag);
    for (size_t i = 1; i < cells->count; i++)
        set_tag(self, &tags[cells->ways[i]], tag_of_rest(cells->ways[0], i));
}
