#include "services/edge/modules/breaker.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"

#include <sodium.h>
#include <string.h>

/* state: closed is its generation alone; open has until, and whether a trial is under way. Each
 * change but the end of a trial is a new generation, so that what a request knew of it is not taken
 * for what it is by now. */
#define OPEN       (1ull << 63)
#define TRIAL      (1ull << 62)
#define GENERATION (1ull << 44)
#define UNTIL      (GENERATION - 1)

#define IS_KEY (1ull << 63)

enum {
    TAKING_MS = 1000, /* who takes a place is dead if it takes longer */
    TRIES = 8,
    IDLE_STEP_MS = 1000 /* idle_at is not written for each request */
};

_Static_assert(BREAKERS_MAX % BREAKER_WAYS == 0, "whole sets of places");

/* A number that must be there. */
static uint32_t read_number(const msgpack_object *document, const char *key, uint32_t min,
                            uint32_t max, bool *bad)
{
    const msgpack_object *value = document_get(document, key);

    if (!value || value->type == MSGPACK_OBJECT_NIL)
        *bad = true;
    return document_number(document, key, min, max, min, bad);
}

static double read_share(const msgpack_object *document, const char *key, bool *bad)
{
    const msgpack_object *value = document_get(document, key);
    double share = -1;

    if (value && (value->type == MSGPACK_OBJECT_FLOAT64 || value->type == MSGPACK_OBJECT_FLOAT32))
        share = value->via.f64;
    else if (value && value->type == MSGPACK_OBJECT_POSITIVE_INTEGER)
        share = (double)value->via.u64;
    if (!(share >= 0 && share <= 1)) /* nor if it is no number */
        *bad = true;
    return share;
}

void breaker_rules_parse(breaker_rules_t *out, const msgpack_object *document, bool *bad)
{
    enum { DAY_S = 86400 };

    out->tripped_s = read_number(document, "tripped_duration", 1, DAY_S, bad);
    out->window_s = read_number(document, "rolling_window", 1, DAY_S, bad);
    out->buckets = read_number(document, "num_buckets", 1, BREAKER_BUCKETS_MAX, bad);
    out->volume = read_number(document, "volume_threshold", 0, UINT32_MAX, bad);
    out->share = read_share(document, "error_threshold_percentage", bad);
}

static uint64_t next_generation(uint64_t state)
{
    return (state + GENERATION) & ~(OPEN | TRIAL | UNTIL);
}

static uint64_t open_state(uint64_t generation, const breaker_rules_t *rules, uint64_t now)
{
    return OPEN | generation | ((now + rules->tripped_s * 1000ull) & UNTIL);
}

uint64_t breaker_key(const char *route_id, const breaker_rules_t *rules)
{
    crypto_generichash_state hash;
    unsigned char out[crypto_generichash_BYTES_MIN];
    uint64_t key;

    crypto_generichash_init(&hash, NULL, 0, sizeof(out));
    crypto_generichash_update(&hash, (const unsigned char *)route_id, strlen(route_id) + 1);
#define HASH(field)                                                                                \
    crypto_generichash_update(&hash, (const unsigned char *)&rules->field, sizeof(rules->field))
    HASH(tripped_s); /* field by field: between them there may be anything */
    HASH(window_s);
    HASH(buckets);
    HASH(volume);
    HASH(share);
#undef HASH
    crypto_generichash_final(&hash, out, sizeof(out));
    memcpy(&key, out, sizeof(key));
    return key | IS_KEY;
}

/* ---- the window ---- */

/* Time in buckets of the window. */
static uint64_t tick_of(const breaker_rules_t *rules, uint64_t now)
{
    INVARIANT(rules->buckets >= 1 && rules->buckets <= BREAKER_BUCKETS_MAX);
    return now * rules->buckets / (rules->window_s * 1000ull);
}

/* One more, in a word that has the turn of the window in its upper half. Where it has a later one
 * already, this worker's clock is a whole window behind: then it is not counted. */
static void count_one(_Atomic uint64_t *word, uint32_t turn)
{
    uint64_t old = atomic_load(word), new;

    do {
        if ((uint32_t)(old >> 32) == turn) {
            if ((uint32_t)old == UINT32_MAX)
                return;
            new = old + 1;
        } else {
            if ((int32_t)(turn - (uint32_t)(old >> 32)) < 0)
                return;
            new = (uint64_t)turn << 32 | 1;
        }
    } while (!atomic_compare_exchange_weak(word, &old, new));
}

static uint64_t count_in_turn(const _Atomic uint64_t *word, uint32_t turn)
{
    uint64_t value = atomic_load(word);

    return (uint32_t)(value >> 32) == turn ? (uint32_t)value : 0;
}

void breaker_window(const breaker_t *breaker, const breaker_rules_t *rules, uint64_t now,
                    uint64_t *all, uint64_t *failed)
{
    uint64_t tick = tick_of(rules, now);
    uint32_t turn = (uint32_t)(tick / rules->buckets), slot = (uint32_t)(tick % rules->buckets);

    *all = *failed = 0;
    for (uint32_t i = 0; i < rules->buckets; i++) {
        /* Those behind the newest are of the turn before. failed first, since breaker_tell adds to it
         * last: else an answer that comes meanwhile counts as failed and not as one of all, and the
         * share is one that there never was. */
        *failed += count_in_turn(&breaker->buckets[i].failed, turn - (i > slot));
        *all += count_in_turn(&breaker->buckets[i].all, turn - (i > slot));
    }
}

static void empty_window(breaker_t *breaker, const breaker_rules_t *rules)
{
    for (uint32_t i = 0; i < rules->buckets; i++) {
        atomic_store(&breaker->buckets[i].all, 0);
        atomic_store(&breaker->buckets[i].failed, 0);
    }
}

/* Closed, as its state says: is it to open? */
static bool is_tripped(const breaker_t *breaker, const breaker_rules_t *rules, uint64_t now)
{
    uint64_t all, failed;

    breaker_window(breaker, rules, now, &all, &failed);
    return failed > 0 && all >= rules->volume && (double)failed / (double)all >= rules->share;
}

/* BREAKER_OPENED, of one caller only, or BREAKER_SAME. */
static breaker_change_t trip_if_due(breaker_t *breaker, uint64_t state,
                                    const breaker_rules_t *rules, uint64_t now)
{
    if (!is_tripped(breaker, rules, now))
        return BREAKER_SAME;
    return atomic_compare_exchange_strong(&breaker->state, &state,
                                          open_state(next_generation(state), rules, now))
               ? BREAKER_OPENED
               : BREAKER_SAME;
}

/* An open breaker is worth a window more than it is open for. */
static void stay_known(breaker_t *breaker, const breaker_rules_t *rules, uint64_t now)
{
    uint64_t idle_at = now + (rules->window_s + rules->tripped_s) * 1000ull + IDLE_STEP_MS;

    if ((int64_t)(idle_at - atomic_load(&breaker->idle_at)) >= IDLE_STEP_MS)
        atomic_store(&breaker->idle_at, idle_at);
}

/* ---- places ---- */

static size_t first_place(uint64_t key)
{
    return (size_t)(key % (BREAKERS_MAX / BREAKER_WAYS)) * BREAKER_WAYS;
}

/* BREAKERS_MAX: it has none. */
static size_t find_place(breakers_t *self, uint64_t key)
{
    size_t first = first_place(key);

    for (size_t i = first; i < first + BREAKER_WAYS; i++)
        if (atomic_load(&self->keys[i]) == key)
            return i;
    return BREAKERS_MAX;
}

/* Whether the place, whose key is held, can be taken from it. pass 0: it is free, or who was taking
 * it died; 1: what it remembers does not count any more; 2: its route is gone, or has
 * other rules. */
static bool is_takable(breakers_t *self, size_t place, uint64_t held, int pass, uint64_t now,
                       breaker_is_gone_t *is_gone)
{
    const breaker_t *breaker = &self->each[place];

    if (!(held & IS_KEY))
        return pass == 0 && (!held || (int64_t)(now - held) >= TAKING_MS);
    if (pass == 1)
        return atomic_load(&breaker->idle_at) <= now;
    /* another worker may write the id by now: then the key is not held any more */
    return pass == 2 && *breaker->id && memchr(breaker->id, '\0', BREAKER_ID_MAX)
           && is_gone(breaker->id, held);
}

/* A closed breaker with an empty window, in the place that this worker is taking. */
static void begin_empty(breaker_t *breaker, const char *route_id, const breaker_rules_t *rules,
                        uint64_t now)
{
    size_t len = strlen(route_id);

    empty_window(breaker, rules);
    memset(breaker->id, 0, sizeof(breaker->id));
    if (len < sizeof(breaker->id))
        memcpy(breaker->id, route_id, len);
    /* a request of who had the place before does not know this generation */
    atomic_store(&breaker->state, next_generation(atomic_load(&breaker->state)));
    atomic_store(&breaker->idle_at, 0);
    stay_known(breaker, rules, now);
}

/* Is the place ready? Else another worker has taken it meanwhile. */
static bool take_place(breakers_t *self, size_t place, uint64_t held, uint64_t key,
                       const char *route_id, const breaker_rules_t *rules, uint64_t now)
{
    uint64_t taking = now ? now & ~IS_KEY : 1;

    if (!atomic_compare_exchange_strong(&self->keys[place], &held, taking))
        return false;
    begin_empty(&self->each[place], route_id, rules, now);
    return atomic_compare_exchange_strong(&self->keys[place], &taking, key);
}

/* BREAKERS_MAX: there is none. */
static size_t choose_place(breakers_t *self, uint64_t key, uint64_t now, breaker_is_gone_t *is_gone,
                           uint64_t *held)
{
    size_t first = first_place(key);

    for (int pass = 0; pass < 3; pass++)
        for (size_t i = first; i < first + BREAKER_WAYS; i++) {
            *held = atomic_load(&self->keys[i]);
            if (is_takable(self, i, *held, pass, now, is_gone))
                return i;
        }
    return BREAKERS_MAX;
}

/* NULL, and *full: there is no place; NULL: others take places at the same time. */
static breaker_t *find_or_make(breakers_t *self, uint64_t key, const char *route_id,
                               const breaker_rules_t *rules, uint64_t now,
                               breaker_is_gone_t *is_gone, bool *full)
{
    *full = false;
    for (int i = 0; i < TRIES; i++) {
        size_t place = find_place(self, key);
        uint64_t held;

        if (place < BREAKERS_MAX)
            return &self->each[place];
        place = choose_place(self, key, now, is_gone, &held);
        if (place == BREAKERS_MAX) {
            *full = true;
            return NULL;
        }
        if (take_place(self, place, held, key, route_id, rules, now))
            return &self->each[place];
    }
    return NULL;
}

/* ---- requests ---- */

static breaker_decision_t decide_one(breaker_t *breaker, const breaker_rules_t *rules, uint64_t now,
                                     uint64_t *state, breaker_change_t *change)
{
    uint64_t trial;

    *state = atomic_load(&breaker->state);
    if (!(*state & OPEN)) {
        *change = trip_if_due(breaker, *state, rules, now);
        if (*change == BREAKER_SAME)
            *state = atomic_load(&breaker->state); /* another worker may have opened it */
        return *change == BREAKER_SAME && !(*state & OPEN) ? BREAKER_ALLOW : BREAKER_BLOCK;
    }
    if (now < (*state & UNTIL))
        return BREAKER_BLOCK;
    trial = open_state(next_generation(*state), rules, now) | TRIAL;
    if (!atomic_compare_exchange_strong(&breaker->state, state, trial))
        return BREAKER_BLOCK; /* another request is the trial */
    *state = trial;
    return BREAKER_ALLOW_WHILE_OPEN;
}

breaker_decision_t breaker_ask(breakers_t *self, uint64_t key, const char *route_id,
                               const breaker_rules_t *rules, uint64_t now,
                               breaker_is_gone_t *is_gone, breaker_ticket_t *ticket,
                               breaker_change_t *change)
{
    bool full;

    *change = BREAKER_SAME;
    ticket->key = key;
    ticket->breaker = find_or_make(self, key, route_id, rules, now, is_gone, &full);
    if (!ticket->breaker) /* what is not there yet is closed: it is only not counted */
        return full ? BREAKER_FULL : BREAKER_ALLOW;
    stay_known(ticket->breaker, rules, now);
    return decide_one(ticket->breaker, rules, now, &ticket->state, change);
}

/* Is the request's breaker still the one, in the state, that allowed it? */
static bool is_current(breakers_t *self, const breaker_ticket_t *ticket)
{
    return ticket->breaker && atomic_load(&self->keys[ticket->breaker - self->each]) == ticket->key
           && atomic_load(&ticket->breaker->state) == ticket->state;
}

static breaker_change_t end_trial(const breaker_ticket_t *ticket, const breaker_rules_t *rules,
                                  uint64_t now, bool failed)
{
    uint64_t state = ticket->state, next = next_generation(state);

    if (failed)
        next = open_state(next, rules, now);
    else
        empty_window(ticket->breaker, rules); /* while it is open nobody counts */
    if (!atomic_compare_exchange_strong(&ticket->breaker->state, &state, next))
        return BREAKER_SAME;
    return failed ? BREAKER_STILL_OPEN : BREAKER_CLOSED;
}

breaker_change_t breaker_tell(breakers_t *self, const breaker_ticket_t *ticket,
                              const breaker_rules_t *rules, uint64_t now, bool failed)
{
    uint64_t tick = tick_of(rules, now);
    uint32_t turn = (uint32_t)(tick / rules->buckets), slot = (uint32_t)(tick % rules->buckets);

    if (!is_current(self, ticket))
        return BREAKER_SAME;
    stay_known(ticket->breaker, rules, now);
    if (ticket->state & TRIAL)
        return end_trial(ticket, rules, now, failed);
    count_one(&ticket->breaker->buckets[slot].all, turn);
    if (failed)
        count_one(&ticket->breaker->buckets[slot].failed, turn);
    return trip_if_due(ticket->breaker, ticket->state, rules, now);
}

void breaker_forget(breakers_t *self, const breaker_ticket_t *ticket, uint64_t now)
{
    uint64_t state = ticket->state;

    if (is_current(self, ticket) && (state & TRIAL))
        atomic_compare_exchange_strong(&ticket->breaker->state, &state,
                                       OPEN | next_generation(state) | (now & UNTIL));
}
