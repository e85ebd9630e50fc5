/* Leases: while a peer holds one it may remember what this service said about a caller. A change
 * that could make that untrue (kinds with ADMITS) gets a number, its epoch; the peers are told,
 * and the reply to the change is held until every peer forgot what it knew, or its lease ran
 * out. So what was revoked is gone everywhere when the answer is given. Frames in proto/WIRE.md.
 * No sockets, and the clock is told. Used by the reactor alone. */
#pragma once

#include "common/bus/deadline.h"

#include <czmq.h>
#include <stdint.h>

enum {
    LEASES_MAX = 64,
    /* from when it was asked for; the holder counts from when it asked, which is earlier */
    LEASE_MS = 1000
};

typedef struct lease {
    zframe_t *holder; /* ROUTER's identity of the peer */
    int64_t heard_ms, epoch;
    clock_gap_t clock;
} lease_t;

/* Sends a message, identity first, without waiting, and takes it. What cannot be sent is lost:
 * that lease runs out. */
typedef void (*leases_say_fn)(void *context, zmsg_t **msg);

typedef struct leases {
    leases_say_fn say;
    void *context;
    lease_t held[LEASES_MAX];
    int count;
    /* peers may hold leases of the process before this one until started_ms + LEASE_MS */
    int64_t started_ms;
    int64_t epoch; /* starts at the wall clock's microseconds, so that no two processes share one */
} leases_t;

/* now_ms, here and below: of the monotonic clock. */
void leases_init(leases_t *self, leases_say_fn say, void *context, int64_t now_ms);
void leases_done(leases_t *self);

/* A peer asks for a lease or renews it: identity, "lease", the epoch it knows, its own clock.
 * Answers it. False when the message is not that; it is left as it was. */
bool leases_take(leases_t *self, zmsg_t *msg, int64_t now_ms);

/* What is known of this peer's clock: it says it whenever it asks. NULL: it holds no lease. */
const clock_gap_t *leases_clock(const leases_t *self, zframe_t *holder);

/* What peers remember is void: tell them. The new epoch. */
int64_t leases_revoke(leases_t *self);

/* Nobody can act on what was known before this epoch any more. */
bool leases_settled(const leases_t *self, int64_t epoch, int64_t now_ms);
