/* What identity is to be told of sessions: when each was active last. Many go in one message; what
 * did not arrive goes again. No nginx in here. */
#pragma once

#include "services/edge/modules/sessions.h"

enum {
    TOLD_MAX = 512,     /* sessions in one message */
    TOLD_PLACES = 2048, /* that are on their way or wait */
    TOLD_SLOTS = 2 * TOLD_PLACES
};

/* All zero: nothing. */
typedef struct told {
    struct {
        unsigned char hash[SESSION_HASH_BYTES];
        int64_t last_active_ms;
    } list[TOLD_PLACES];
    size_t count, sent;         /* sent: the first of them, which are on their way */
    uint16_t slots[TOLD_SLOTS]; /* where those that wait are found, by their hashes */
} told_t;

/* The session was active then. False: there is no room, since many are on their way or wait. */
bool told_add(told_t *self, const unsigned char *hash, int64_t last_active_ms);

/* The first of them, TOLD_MAX at most, are on their way; before the next time told_end says what
 * became of them. */
void told_send(told_t *self);
/* They arrived, or they wait again. */
void told_end(told_t *self, bool arrived);
