#include "services/edge/modules/breaker.h"

#include "common/base/invariant.h"
#include "services/edge/table/document.h"

#include <sodium.h>
#include <string.h>

/* state: closed is its generation alone; open has until, and whether a trial is under way. Each
 * change is a new generation, so that what a request knew of it is not taken for what it is by now,
 * but one: trials whose body is still to come (LATE) follow each other in one generation, and the
 * first of them that has an answer decides. */
#define OPEN       (1ull << 63)
#define TRIAL      (1ull << 62)
#define LATE       (1ull << 61)
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
    return (state + GENERATION) & ~(OPEN | TRIAL | LATE | UNTIL);
}

static uint64_t open_state(uint64_t generation, const breaker_rules_t *rules, uint64_t now)
{
    return OPEN | generation | ((now + rules->tripped_s * 1000ull) & UNTIL);
}

uint64_t breaker_key(const breakers_t *self, const char *route_id, const breaker_rules_t *rules)
{
    crypto_generichash_state hash;
    unsigned char out[crypto_generichash_BYTES_MIN];
    uint64_t key;

    crypto_generichash_init(&hash, self->secret, sizeof(self->secret), sizeof(out));
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

/* Not of a route: an id of an account ends without a NUL. */
static uint64_t hash_account(const breakers_t *self, const breaker_route_t *route)
{
    unsigned char out[crypto_generichash_BYTES_MIN];
    uint64_t account;

    crypto_generichash(out, sizeof(out), (const unsigned char *)route->account, route->account_len,
                       self->secret, sizeof(self->secret));
    memcpy(&account, out, sizeof(account));
    return account;
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
        /* Those behind the newest are of the turn before. failed first, since breaker_tell adds
         * to it last: else an answer that comes meanwhile counts as failed and not as one of
         * all, and the share is one that there never was. */
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

/* Whether the place, whose key is held, can be taken from it at no loss. pass 0: it is free, or who
 * was taking it died; 1: what it remembers does not count any more; 2: its route is gone, or has
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
static void begin_empty(breaker_t *breaker, const breaker_route_t *route, uint64_t account,
                        const breaker_rules_t *rules, uint64_t now)
{
    size_t len = strlen(route->id);

    empty_window(breaker, rules);
    memset(breaker->id, 0, sizeof(breaker->id));
    if (len < sizeof(breaker->id))
        memcpy(breaker->id, route->id, len);
    /* a request of who had the place before does not know this generation */
    atomic_store(&breaker->state, next_generation(atomic_load(&breaker->state)));
    atomic_store(&breaker->account, account);
    atomic_store(&breaker->idle_at, 0);
    stay_known(breaker, rules, now);
}

/* Is the place ready? Else another worker has taken it meanwhile. */
static bool take_place(breakers_t *self, size_t place, uint64_t held, const breaker_route_t *route,
                       uint64_t account, const breaker_rules_t *rules, uint64_t now)
{
    uint64_t taking = now ? now & ~IS_KEY : 1;

    if (!atomic_compare_exchange_strong(&self->keys[place], &held, taking))
        return false;
    begin_empty(&self->each[place], route, account, rules, now);
    return atomic_compare_exchange_strong(&self->keys[place], &taking, route->key);
}

/* A place that can be taken at no loss; BREAKERS_MAX: there is none. */
static size_t choose_free(breakers_t *self, uint64_t key, uint64_t now, breaker_is_gone_t *is_gone,
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

/* How many of the places from first on the account has. */
static unsigned count_places(const breakers_t *self, size_t first, uint64_t account)
{
    unsigned count = 0;

    for (size_t i = first; i < first + BREAKER_WAYS; i++)
        count += atomic_load(&self->each[i].account) == account;
    return count;
}

/* Which of two breakers is to be forgotten: one that is closed, then the one asked longest ago. */
static bool is_worth_less(const breaker_t *one, const breaker_t *other)
{
    bool is_open = atomic_load(&one->state) & OPEN, other_is = atomic_load(&other->state) & OPEN;

    if (is_open != other_is)
        return other_is;
    return atomic_load(&one->idle_at) < atomic_load(&other->idle_at);
}

/* A place of the account that has most of them, which is the one that asks where it has as many as
 * any other: nobody loses a breaker to an account that has more. BREAKERS_MAX: all of them are
 * being taken. */
static size_t choose_from_richest(breakers_t *self, uint64_t key, uint64_t account, uint64_t *held)
{
    size_t first = first_place(key), best = BREAKERS_MAX;
    unsigned most = 0;

    for (size_t i = first; i < first + BREAKER_WAYS; i++) {
        uint64_t its_key = atomic_load(&self->keys[i]);
        uint64_t owner = atomic_load(&self->each[i].account);
        unsigned count = 2 * count_places(self, first, owner) + (owner == account);

        if (!(its_key & IS_KEY) || count < most)
            continue;
        if (best < BREAKERS_MAX && count == most
            && !is_worth_less(&self->each[i], &self->each[best]))
            continue;
        most = count;
        best = i;
        *held = its_key;
    }
    return best;
}

/* NULL: others take places at the same time. */
static breaker_t *find_or_make(breakers_t *self, const breaker_route_t *route,
                               const breaker_rules_t *rules, uint64_t now,
                               breaker_is_gone_t *is_gone, bool *replaced)
{
    uint64_t account = 0, held;

    *replaced = false;
    for (int i = 0; i < TRIES; i++) {
        size_t place = find_place(self, route->key);

        if (place < BREAKERS_MAX)
            return &self->each[place];
        if (i == 0)
            account = hash_account(self, route);
        place = choose_free(self, route->key, now, is_gone, &held);
        *replaced = place == BREAKERS_MAX;
        if (*replaced)
            place = choose_from_richest(self, route->key, account, &held);
        if (place == BREAKERS_MAX)
            break;
        if (take_place(self, place, held, route, account, rules, now))
            return &self->each[place];
    }
    *replaced = false;
    return NULL;
}

/* ---- requests ---- */

/* Of an open breaker: may the request be the trial by now? */
static bool may_try(uint64_t state, bool whole, uint64_t now)
{
    return now >= (state & UNTIL) || (whole && (state & LATE));
}

/* What the breaker is while the request is the trial. */
static uint64_t trial_state(uint64_t state, const breaker_rules_t *rules, bool whole, uint64_t now)
{
    if (whole)
        return open_state(next_generation(state), rules, now) | TRIAL;
    if (!(state & LATE)) /* whoever was the trial before is not any more */
        state = next_generation(state);
    return OPEN | TRIAL | LATE | (state & ~UNTIL) | ((now + BREAKER_LATE_MS) & UNTIL);
}

static breaker_decision_t decide_one(breaker_t *breaker, const breaker_rules_t *rules, bool whole,
                                     uint64_t now, uint64_t *state, breaker_change_t *change)
{
    uint64_t trial;

    *state = atomic_load(&breaker->state);
    if (!(*state & OPEN)) {
        *change = trip_if_due(breaker, *state, rules, now);
        if (*change == BREAKER_SAME)
            *state = atomic_load(&breaker->state); /* another worker may have opened it */
        return *change == BREAKER_SAME && !(*state & OPEN) ? BREAKER_ALLOW : BREAKER_BLOCK;
    }
    if (!may_try(*state, whole, now))
        return BREAKER_BLOCK;
    trial = trial_state(*state, rules, whole, now);
    if (!atomic_compare_exchange_strong(&breaker->state, state, trial))
        return BREAKER_BLOCK; /* another request is the trial */
    *state = trial;
    return BREAKER_ALLOW_WHILE_OPEN;
}

breaker_decision_t breaker_ask(breakers_t *self, const breaker_route_t *route,
                               const breaker_rules_t *rules, bool whole, uint64_t now,
                               breaker_is_gone_t *is_gone, breaker_ticket_t *ticket,
                               breaker_change_t *change)
{
    *change = BREAKER_SAME;
    ticket->key = route->key;
    ticket->breaker = find_or_make(self, route, rules, now, is_gone, &ticket->replaced);
    if (!ticket->breaker) /* what is not there yet is closed: it is only not counted */
        return BREAKER_ALLOW;
    stay_known(ticket->breaker, rules, now);
    return decide_one(ticket->breaker, rules, whole, now, &ticket->state, change);
}

/* What a request of the breaker's state is judged by: of late trials, the generation. */
static uint64_t standing(uint64_t state)
{
    return state & LATE ? state & ~UNTIL : state;
}

/* Is the request's breaker still the one, in the state, that allowed it? *state: its state now. */
static bool is_current(breakers_t *self, const breaker_ticket_t *ticket, uint64_t *state)
{
    if (!ticket->breaker || atomic_load(&self->keys[ticket->breaker - self->each]) != ticket->key)
        return false;
    *state = atomic_load(&ticket->breaker->state);
    return standing(*state) == standing(ticket->state);
}

static breaker_change_t end_trial(breaker_t *breaker, uint64_t state, const breaker_rules_t *rules,
                                  uint64_t now, bool failed)
{
    uint64_t next = next_generation(state);

    uint64_t was = state;

    if (failed)
        next = open_state(next, rules, now);
    else
        empty_window(breaker, rules); /* while it is open nobody counts */
    while (!atomic_compare_exchange_strong(&breaker->state, &state, next))
        if (standing(state) != standing(was)) /* else another late trial began */
            return BREAKER_SAME;
    return failed ? BREAKER_STILL_OPEN : BREAKER_CLOSED;
}

breaker_change_t breaker_tell(breakers_t *self, const breaker_ticket_t *ticket,
                              const breaker_rules_t *rules, uint64_t now, bool failed)
{
    uint64_t tick = tick_of(rules, now), state;
    uint32_t turn = (uint32_t)(tick / rules->buckets), slot = (uint32_t)(tick % rules->buckets);

    if (!is_current(self, ticket, &state))
        return BREAKER_SAME;
    stay_known(ticket->breaker, rules, now);
    if (state & TRIAL)
        return end_trial(ticket->breaker, state, rules, now, failed);
    count_one(&ticket->breaker->buckets[slot].all, turn);
    if (failed)
        count_one(&ticket->breaker->buckets[slot].failed, turn);
    return trip_if_due(ticket->breaker, ticket->state, rules, now);
}

void breaker_forget(breakers_t *self, const breaker_ticket_t *ticket, uint64_t now)
{
    uint64_t state, next;

    /* the last of the late ones may be another by now, which goes on */
    if (!is_current(self, ticket, &state) || !(state & TRIAL) || state != ticket->state)
        return;
    next = state & LATE ? state & ~UNTIL : OPEN | next_generation(state);
    atomic_compare_exchange_strong(&ticket->breaker->state, &state, next | (now & UNTIL));
}
