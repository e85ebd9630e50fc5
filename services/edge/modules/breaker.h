/* Circuit breakers: a route whose upstream fails is not asked for a while. They are in memory that
 * all workers of an edge share, in atomic words only: no lock that a dead worker could hold, and
 * what one leaves half done mends itself. No nginx in here, and no clock: now is in milliseconds, of
 * a clock that never goes back and is the same for all workers.
 *
 * A breaker is closed at first. It opens when the requests of its window are volume or more, at
 * least one failed, and those that did are share of them or more. While it is open, one request goes
 * upstream each time that tripped_s have passed: the trial, which closes it by an answer that is no
 * failure, and leaves it open for tripped_s more by one that is. A trial that never ends is followed
 * by another when tripped_s have passed since it began. A client that has not sent all of its body
 * could keep its own trial from ending: such a trial is followed by others after BREAKER_LATE_MS,
 * and at once by a request that is there with all of its body.
 *
 * Whoever makes routes decides how many breakers there are. So nobody can say which places a
 * breaker may have, by a secret, and where all are taken, the account that has most of them gives
 * up one: no request is denied for want of a place. */
#pragma once

#include <msgpack.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    BREAKERS_MAX = 8192,
    BREAKER_WAYS = 64, /* places that one key may have */
    BREAKER_BUCKETS_MAX = 128,
    BREAKER_ID_MAX = 64,
    BREAKER_SECRET_BYTES = 32,
    BREAKER_LATE_MS = 1000 /* a trial whose body is still to come keeps others like it out */
};

typedef struct breaker_rules {
    uint32_t tripped_s;
    uint32_t window_s;
    uint32_t buckets; /* of the window, 1 to BREAKER_BUCKETS_MAX */
    uint32_t volume;
    double share; /* 0 to 1 */
} breaker_rules_t;

typedef struct breaker {
    _Atomic uint64_t state;   /* breaker.c */
    _Atomic uint64_t idle_at; /* from then on it remembers nothing that counts */
    _Atomic uint64_t account; /* keyed hash of the id of the route's account */
    char id[BREAKER_ID_MAX];  /* the route's */
    struct {
        _Atomic uint64_t all, failed; /* which turn of the window (32 bits), and how many in it */
    } buckets[BREAKER_BUCKETS_MAX];
} breaker_t;

/* Of all routes; all zero is empty, but for the secret. */
typedef struct breakers {
    unsigned char secret[BREAKER_SECRET_BYTES]; /* random bytes; never changes */
    _Atomic uint64_t keys[BREAKERS_MAX]; /* of each: 0 free; with its highest bit, a key; else it is
                                            being taken since that time */
    breaker_t each[BREAKERS_MAX];
} breakers_t;

typedef enum breaker_decision {
    BREAKER_ALLOW,            /* closed */
    BREAKER_ALLOW_WHILE_OPEN, /* the trial */
    BREAKER_BLOCK             /* open */
} breaker_decision_t;

/* Whose breaker is asked. */
typedef struct breaker_route {
    uint64_t key;
    const char *id, *account;
    size_t account_len;
} breaker_route_t;

/* What a request that was allowed keeps until its answer. */
typedef struct breaker_ticket {
    breaker_t *breaker; /* NULL: it is not counted */
    uint64_t key;
    uint64_t state; /* of the breaker when it was allowed */
    bool replaced;  /* another breaker, which was still worth something, was forgotten for it */
} breaker_ticket_t;

typedef enum breaker_change {
    BREAKER_SAME,
    BREAKER_OPENED,
    BREAKER_CLOSED,
    BREAKER_STILL_OPEN /* the trial failed */
} breaker_change_t;

/* The module's document; *bad where it is not what the tables promise. */
void breaker_rules_parse(breaker_rules_t *out, const msgpack_object *document, bool *bad);

/* Of a route under these rules: a change of them begins with a closed breaker. Never 0. Nobody who
 * does not know the secret can tell which routes have the same places. */
uint64_t breaker_key(const breakers_t *self, const char *route_id, const breaker_rules_t *rules);

/* Is the key none that the route has by now, so that its place can be taken? A route has one place
 * that cannot, however often its rules change. */
typedef bool breaker_is_gone_t(const char *route_id, uint64_t key);

/* A request comes; whole: with all of its body. *change is BREAKER_OPENED where what was forgotten
 * by now makes the breaker open. is_gone is asked only where no place is free or idle. */
breaker_decision_t breaker_ask(breakers_t *self, const breaker_route_t *route,
                               const breaker_rules_t *rules, bool whole, uint64_t now,
                               breaker_is_gone_t *is_gone, breaker_ticket_t *ticket,
                               breaker_change_t *change);

/* The answer to a request that was allowed, once. What began before the breaker opened or closed
 * last, or is of a breaker whose place another one has, says nothing. */
breaker_change_t breaker_tell(breakers_t *self, const breaker_ticket_t *ticket,
                              const breaker_rules_t *rules, uint64_t now, bool failed);

/* There will be no answer, and it is not the upstream's fault: where it was the trial, the next
 * request is one. */
void breaker_forget(breakers_t *self, const breaker_ticket_t *ticket, uint64_t now);

/* How many requests of the window there were, and how many of them failed, for the log. */
void breaker_window(const breaker_t *breaker, const breaker_rules_t *rules, uint64_t now,
                    uint64_t *all, uint64_t *failed);
