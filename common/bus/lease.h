/* Leases: while a peer (a gateway) holds one it may cache this service's answers about callers. A
 * change that could make a cached answer wrong (kinds with ADMITS) begins a new epoch; the holders
 * are told to drop their caches, and the reply to the change is held until every holder has
 * acknowledged or its lease has expired. So a revoked key is refused everywhere when the revocation
 * is answered. Frames in proto/WIRE.md. No sockets and no clock in here. Used by the reactor's
 * thread alone. */
#pragma once

#include "common/bus/deadline.h"

#include <czmq.h>
#include <stdint.h>

enum {
    LEASES_MAX = 64,
    /* counted from the request's arrival; the holder counts from its sending, which is earlier */
    LEASE_MS = 1000
};

typedef struct lease {
    zframe_t *holder; /* ROUTER's identity of the peer */
    int64_t heard_ms, epoch;
    clock_gap_t clock;
} lease_t;

/* Sends a message whose first frame is the identity, without waiting, and takes it over. If it
 * cannot be sent it is dropped: the lease of that peer then runs out. */
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

/* now_ms, here and below: monotonic clock, ms. */
void leases_init(leases_t *self, leases_say_fn say, void *context, int64_t now_ms);
void leases_done(leases_t *self);

/* Answer a request for a lease or its renewal (frames: identity, "lease", the epoch that the peer
 * knows, its clock). False: msg is something else, and unchanged. */
bool leases_take(leases_t *self, zmsg_t *msg, int64_t now_ms);

/* The difference to this peer's clock, which it sends with every request for a lease. Borrowed.
 * NULL: it holds no lease. */
const clock_gap_t *leases_clock(const leases_t *self, zframe_t *holder);

/* Begin a new epoch and tell all holders to drop what they cached before. Returns the new epoch. */
int64_t leases_revoke(leases_t *self);

/* Has every holder acknowledged this epoch, or its lease expired? Then no peer uses older cached
 * answers. */
bool leases_settled(const leases_t *self, int64_t epoch, int64_t now_ms);
