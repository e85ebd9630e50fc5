/* Replies that wait: for a config revision until every live edge worker has it, for an epoch of
 * leases until nobody acts on what was known before; each for HELD_MS at most. Waiting occupies
 * no worker. No sockets, and the clock is told. Used by the reactor alone. */
#pragma once

#include "common/bus/flight.h"

#include <czmq.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HELD_MAX = 4096, /* more go at once, with what is known then */
    HELD_MS = 2000
};

typedef struct held_reply {
    zmsg_t *reply; /* sender's identity and the encoded reply */
    char key[FLIGHT_KEY_SIZE];
    int64_t revision, epoch; /* 0: nothing to wait for */
    int64_t deadline_ms;
} held_reply_t;

typedef struct held held_t;

/* What replies wait for. */
typedef struct held_rules {
    bool (*is_in_force)(void *context, int64_t revision, int64_t epoch, int64_t now_ms);
    /* reply->reply is taken. */
    void (*send)(void *context, held_reply_t *reply);
    void *context;
} held_rules_t;

/* NULL: no memory. */
held_t *held_new(const held_rules_t *rules);
/* Sends what waits still. */
void held_destroy(held_t **self_p);

/* Send it, or hold it; reply is taken. */
void held_add(held_t *self, zmsg_t *reply, const char *key, int64_t revision, int64_t epoch,
              int64_t now_ms);

/* Something changed, or time passed: send those that need not wait any more, in the order in
 * which they came. */
void held_release(held_t *self, int64_t now_ms);

int held_count(const held_t *self);
/* How many waited for so long that they went without. */
uint64_t held_late(const held_t *self);
