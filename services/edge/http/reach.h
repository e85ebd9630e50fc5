/* Which members of failover backends cannot be reached, so that a dead one is not dialled for every
 * request. Only members whose dial failed are in here, in memory that all workers of an edge share
 * and that has a bound, in atomic words only: no lock that a dead worker could hold. No nginx in
 * here, and no clock: now is in milliseconds, of a clock that never goes back and is the same for
 * all workers.
 *
 * Whoever makes backends decides how many members are down. Where all places that a key may have
 * are taken, the account among theirs that has most places of all gives up one: its own requests
 * dial that member. So however many accounts have many, together they take no place from one that
 * has few.
 *
 * A member whose dial fails is passed over for REACH_FIRST_MS. Then one request tries it: a
 * connection forgets it, another failure passes it over for twice as long, up to
 * REACH_LONGEST_MS. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    REACH_MAX = 4096,
    REACH_WAYS = 16, /* places that one key may have */
    REACH_ID_MAX = 64,
    REACH_FIRST_MS = 1000,
    REACH_LONGEST_MS = 30 * 1000,
    REACH_TRIAL_MS =
        60 * 1000, /* a trial that nobody ended is followed by another: its worker died */
    REACH_IDLE_MS = 600 * 1000 /* nobody tried it for so long: its place can be taken */
};

/* All zero is empty. */
typedef struct reach {
    _Atomic uint64_t
        keys[REACH_MAX]; /* 0: free; with its highest bit, a key; else it is being taken
                                         since that time */
    struct {
        _Atomic uint64_t state; /* reach.c */
        _Atomic uint64_t account;
        char id[REACH_ID_MAX]; /* the backend's, for people */
    } each[REACH_MAX];
} reach_t;

typedef enum reach_answer {
    REACH_UP,    /* nobody knows better: dial it */
    REACH_TRIAL, /* dial it, for all others: end it by one of the last three functions */
    REACH_DOWN   /* pass it over */
} reach_answer_t;

/* Who a member is, and whose. */
typedef struct reach_member {
    uint64_t key;     /* with its highest bit set; nobody can choose its set of places */
    uint64_t account; /* a hash of the account's id */
    const char *id;
} reach_member_t;

/* What would a request be told that dials the member now? Nothing is taken, a trial neither. */
reach_answer_t reach_look(reach_t *self, uint64_t key, uint64_t now);

/* A request dials the member. */
reach_answer_t reach_ask(reach_t *self, uint64_t key, uint64_t now);

/* Its dial failed. True: it was not known as down, and has not just taken the place of another one
 * of its account. trial: reach_ask said so to this request. */
bool reach_failed(reach_t *self, const reach_member_t *member, uint64_t now, bool trial);

/* A connection was made. True: it was known as down. */
bool reach_made(reach_t *self, uint64_t key);

/* The trial ended without a result: the next request is one. */
void reach_left(reach_t *self, uint64_t key, uint64_t now);

/* How many are passed over now, or wait for a trial. Writes the ids of at most max of them. */
size_t reach_list(reach_t *self, uint64_t now, char ids[][REACH_ID_MAX], size_t max);
