/* Replies that are held back until their change is in force: until every live edge worker has the
 * revision, and every gateway has dropped cached answers of earlier epochs (lease.h); each for
 * HELD_MS at most. A held reply occupies no worker. No sockets and no clock in here. Used by the
 * reactor's thread alone. */
#pragma once

#include "common/bus/flight.h"

#include <czmq.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    HELD_MAX = 4096, /* beyond that, replies are sent at once */
    HELD_MS = 2000
};

typedef struct held_reply {
    zmsg_t *reply; /* identity of the request's sender, and the encoded reply */
    char key[FLIGHT_KEY_SIZE];
    int64_t revision, epoch; /* 0: nothing to wait for */
    int64_t deadline_ms;
} held_reply_t;

typedef struct held held_t;

/* Callbacks: is the change in force, and how a reply is sent. */
typedef struct held_rules {
    bool (*is_in_force)(void *context, int64_t revision, int64_t epoch, int64_t now_ms);
    /* reply->reply is taken. */
    void (*send)(void *context, held_reply_t *reply);
    void *context;
} held_rules_t;

/* NULL: no memory. */
held_t *held_new(const held_rules_t *rules);
/* Send all replies that are still held, and free. */
void held_destroy(held_t **self_p);

/* Send the reply if its change is in force, else hold it; reply is taken over. */
void held_add(held_t *self, zmsg_t *reply, const char *key, int64_t revision, int64_t epoch,
              int64_t now_ms);

/* Call when a report changed or time passed: sends the replies that need not wait any more, in the
 * order in which they were added. */
void held_release(held_t *self, int64_t now_ms);

/* How many replies are held now. */
int held_count(const held_t *self);
/* How many replies were sent after HELD_MS although their change was not in force everywhere. */
uint64_t held_late(const held_t *self);
