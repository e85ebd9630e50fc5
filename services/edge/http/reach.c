#include "services/edge/http/reach.h"

#include <string.h>

/* state: how often its dial failed, one after the other, and until when it is passed over. */
#define FAILURE (1ull << 48)
#define UNTIL   (FAILURE - 1)

#define IS_KEY (1ull << 63)

enum {
    FAILURES_MAX = 32,
    TRIES = 8,
    TAKING_MS = 1000 /* who takes a place is dead if it takes longer */
};

_Static_assert(REACH_MAX % REACH_WAYS == 0, "whole sets of places");

static uint64_t failures_of(uint64_t state)
{
    return state / FAILURE;
}

static uint64_t until_of(uint64_t state)
{
    return state & UNTIL;
}

static uint64_t make_state(uint64_t failures, uint64_t until)
{
    return failures * FAILURE | (until & UNTIL);
}

static uint64_t wait_ms(uint64_t failures)
{
    uint64_t wait = REACH_FIRST_MS;

    while (--failures > 0 && wait < REACH_LONGEST_MS)
        wait *= 2;
    return wait < REACH_LONGEST_MS ? wait : REACH_LONGEST_MS;
}

/* ---- places ---- */

static size_t first_place(uint64_t key)
{
    return (size_t)(key % (REACH_MAX / REACH_WAYS)) * REACH_WAYS;
}

/* REACH_MAX: it has none. */
static size_t find_place(reach_t *self, uint64_t key)
{
    size_t first = first_place(key);

    for (size_t i = first; i < first + REACH_WAYS; i++)
        if (atomic_load(&self->keys[i]) == key)
            return i;
    return REACH_MAX;
}

static bool is_takable(reach_t *self, size_t place, uint64_t held, uint64_t now)
{
    if (!(held & IS_KEY))
        return !held || (int64_t)(now - held) >= TAKING_MS;
    return until_of(atomic_load(&self->each[place].state)) + REACH_IDLE_MS <= now;
}

static void write_id(reach_t *self, size_t place, const char *id)
{
    size_t len = strlen(id);

    memset(self->each[place].id, 0, REACH_ID_MAX);
    memcpy(self->each[place].id, id, len < REACH_ID_MAX ? len : REACH_ID_MAX - 1);
}

/* REACH_MAX: none is free. */
static size_t choose_free(reach_t *self, size_t first, uint64_t now, uint64_t *held)
{
    for (size_t i = first; i < first + REACH_WAYS; i++) {
        *held = atomic_load(&self->keys[i]);
        if (is_takable(self, i, *held, now))
            return i;
    }
    return REACH_MAX;
}

/* How many of all places the owners of those from first on have: counts[i] is of who has place
 * first + i. */
static void count_places(const reach_t *self, size_t first, unsigned counts[REACH_WAYS])
{
    uint64_t owners[REACH_WAYS];

    for (size_t i = 0; i < REACH_WAYS; i++) {
        owners[i] = atomic_load(&self->each[first + i].account);
        counts[i] = 0;
    }
    for (size_t place = 0; place < REACH_MAX; place++) {
        uint64_t owner;

        if (!(atomic_load_explicit(&self->keys[place], memory_order_relaxed) & IS_KEY))
            continue;
        owner = atomic_load_explicit(&self->each[place].account, memory_order_relaxed);
        for (size_t i = 0; i < REACH_WAYS; i++)
            counts[i] += owners[i] == owner;
    }
}

/* A place of the account that has most of all places, which is the one that asks where it has as
 * many as any other; of these the one that is passed over for the shortest time. REACH_MAX: all of
 * them are being taken. */
static size_t choose_from_richest(reach_t *self, size_t first, uint64_t account, uint64_t *held)
{
    size_t best = REACH_MAX;
    unsigned most = 0, counts[REACH_WAYS];

    count_places(self, first, counts);
    for (size_t i = first; i < first + REACH_WAYS; i++) {
        uint64_t key = atomic_load(&self->keys[i]), owner = atomic_load(&self->each[i].account);
        unsigned count = 2 * counts[i - first] + (owner == account);

        if (!(key & IS_KEY) || count < most)
            continue;
        if (best < REACH_MAX && count == most
            && until_of(atomic_load(&self->each[i].state))
                   >= until_of(atomic_load(&self->each[best].state)))
            continue;
        most = count;
        best = i;
        *held = key;
    }
    return best;
}

/* Has it a place now, which is none that another member of its account had to give up? */
static bool take_place(reach_t *self, const reach_member_t *member, uint64_t now)
{
    uint64_t taking = now & ~IS_KEY ? now & ~IS_KEY : 1, held;
    size_t first = first_place(member->key), place;
    bool is_own = false;

    for (int i = 0; i < TRIES; i++) {
        place = choose_free(self, first, now, &held);
        if (place == REACH_MAX) {
            place = choose_from_richest(self, first, member->account, &held);
            is_own =
                place < REACH_MAX && atomic_load(&self->each[place].account) == member->account;
        }
        if (place == REACH_MAX)
            return false;
        if (!atomic_compare_exchange_strong(&self->keys[place], &held, taking))
            continue;
        write_id(self, place, member->id);
        atomic_store(&self->each[place].account, member->account);
        atomic_store(&self->each[place].state, make_state(1, now + wait_ms(1)));
        return atomic_compare_exchange_strong(&self->keys[place], &taking, member->key) && !is_own;
    }
    return false;
}

/* ---- requests ---- */

reach_answer_t reach_look(reach_t *self, uint64_t key, uint64_t now)
{
    size_t place = find_place(self, key);

    if (place == REACH_MAX)
        return REACH_UP;
    return now < until_of(atomic_load(&self->each[place].state)) ? REACH_DOWN : REACH_TRIAL;
}

reach_answer_t reach_ask(reach_t *self, uint64_t key, uint64_t now)
{
    size_t place = find_place(self, key);
    uint64_t state;

    if (place == REACH_MAX)
        return REACH_UP;
    state = atomic_load(&self->each[place].state);
    if (now < until_of(state))
        return REACH_DOWN;
    return atomic_compare_exchange_strong(&self->each[place].state, &state,
                                          make_state(failures_of(state), now + REACH_TRIAL_MS))
               ? REACH_TRIAL
               : REACH_DOWN; /* another request is the trial */
}

bool reach_failed(reach_t *self, const reach_member_t *member, uint64_t now, bool trial)
{
    size_t place = find_place(self, member->key);
    uint64_t state, failures;

    if (place == REACH_MAX)
        return take_place(self, member, now);
    state = atomic_load(&self->each[place].state);
    if (!trial && now < until_of(state))
        return false; /* one of many that were dialled at the same time says nothing new */
    failures = failures_of(state) < FAILURES_MAX ? failures_of(state) + 1 : FAILURES_MAX;
    atomic_compare_exchange_strong(&self->each[place].state, &state,
                                   make_state(failures, now + wait_ms(failures)));
    return false;
}

bool reach_made(reach_t *self, uint64_t key)
{
    size_t place = find_place(self, key);

    return place < REACH_MAX && atomic_compare_exchange_strong(&self->keys[place], &key, 0);
}

void reach_left(reach_t *self, uint64_t key, uint64_t now)
{
    size_t place = find_place(self, key);
    uint64_t state;

    if (place == REACH_MAX)
        return;
    state = atomic_load(&self->each[place].state);
    atomic_compare_exchange_strong(&self->each[place].state, &state,
                                   make_state(failures_of(state), now));
}

size_t reach_list(reach_t *self, uint64_t now, char ids[][REACH_ID_MAX], size_t max)
{
    size_t count = 0;

    for (size_t i = 0; i < REACH_MAX; i++) {
        uint64_t held = atomic_load(&self->keys[i]);

        if (!(held & IS_KEY) || is_takable(self, i, held, now))
            continue;
        if (count < max) {
            memcpy(ids[count], self->each[i].id, REACH_ID_MAX);
            ids[count][REACH_ID_MAX - 1] = '\0';
        }
        count++;
    }
    return count;
}
