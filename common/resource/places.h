/* Places at the config log: one for each connection of an edge worker, so many for one key. Who
 * finds none is turned away, and remembered: it serves what it has, and no change reaches it. No
 * sockets are used in here, and the clock is told. Used by one thread. */
#pragma once

#include "common/bus/transit.h"
#include "common/resource/subscriber.h"
#include "common/schema/role.h"

#include <stddef.h>

enum {
    PLACES_MAX = 1024,    /* at one copy; services count as many of all copies */
    PLACES_KEY_MAX = 128, /* of one key: 64 workers, and as many of the edge that takes its place */
    PLACES_IDENTITY_MAX = 64,
    PLACES_PER_TURN = 16
};

typedef struct place {
    unsigned char identity[PLACES_IDENTITY_MAX]; /* of the connection */
    size_t identity_len;
    transit_t *way; /* what was sent over this connection and not taken yet */
    char peer[96];  /* whose key the connection showed: another peer cannot take it over */
    char name[ROLE_OWN_NAME_MAX + 1]; /* of the worker */
    subscriber_t sub;
} place_t;

typedef struct places {
    place_t list[PLACES_MAX];
    int count;
    int first; /* with whom a turn begins, so that nobody is always last */
    int64_t turned_away_ms, turned_away_said_ms;
} places_t;

void places_done(places_t *self);

/* The place of that connection; NULL. */
place_t *places_find(places_t *self, const void *identity, size_t len);

/* A place for a connection that says hello. own: the one that it left, or NULL. NULL: there is
 * none, for anybody or for this peer. What one key takes the others have. */
place_t *places_take(places_t *self, place_t *own, const void *identity, size_t len,
                     const char *peer);

/* Can a worker of that name be told of changes? */
bool places_reach(const places_t *self, const char *name);
/* Do answers wait for one of that name? */
bool places_wait_for(const places_t *self, const char *name);

/* Somebody found no place. True: it is time to say so. As long as it goes on asking
 * somebody_is_turned_away. */
bool places_turn_away(places_t *self, int64_t now_ms);
bool places_somebody_is_turned_away(const places_t *self);
/* True: nobody has asked in vain for a while, and that is new. */
bool places_forget_turned_away(places_t *self, int64_t now_ms);

/* Those whose turn it is, in ret, one of each peer at most: what one of them makes of work the
 * others do not wait for. at: what is_due compares with. */
int places_choose(places_t *self, bool (*is_due)(const place_t *, int64_t), int64_t at,
                  place_t *ret[PLACES_PER_TURN]);
/* The next turn begins with another one. */
void places_next_turn(places_t *self);
