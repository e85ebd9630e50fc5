/* The config log's table of connections: a place for each connection of an edge worker, with limits
 * in total and for each key. A worker that gets no place is turned away, but remembered: it goes on
 * serving, and no change reaches it. No sockets and no clock in here. Used by one thread. */
#pragma once

#include "common/bus/transit.h"
#include "common/resource/ended.h"
#include "common/resource/subscriber.h"
#include "common/schema/role.h"

#include <stddef.h>

enum {
    PLACES_MAX = 1024,    /* at one copy; services count as many of all copies */
    PLACES_KEY_MAX = 128, /* of one key: 64 workers, and 64 of the master that replaces theirs */
    PLACES_IDENTITY_MAX = 64,
    PLACES_PER_TURN = 16
};

typedef struct place {
    unsigned char identity[PLACES_IDENTITY_MAX]; /* ROUTER's identity of the connection */
    size_t identity_len;
    transit_t *way; /* counts bytes sent over the connection and not taken by the kernel */
    char peer[96];  /* id of the connection's key: another peer cannot take the place over */
    char name[ROLE_OWN_NAME_MAX + 1]; /* of the worker */
    subscriber_t sub;
    ended_t ended; /* streams ended there, from its last acknowledgement */
    int64_t sign;  /* number of its newest sign of life, which beats repeat; 0: it has none */
} place_t;

typedef struct places {
    place_t list[PLACES_MAX];
    int count;
    int first; /* index with which the next turn begins (round robin) */
    int64_t turned_away_ms, turned_away_said_ms;
} places_t;

/* Free what the places own. */
void places_done(places_t *self);

/* The place of that connection; NULL: it has none. */
place_t *places_find(places_t *self, const void *identity, size_t len);

/* Take a place for a connection that says hello. own: the place that it had before, or NULL. NULL:
 * all are taken, or this key has PLACES_KEY_MAX. */
place_t *places_take(places_t *self, place_t *own, const void *identity, size_t len,
                     const char *peer);

/* Can a worker of that name be sent changes? */
bool places_reach(const places_t *self, const char *name);
/* Do replies wait for a worker of that name? */
bool places_wait_for(const places_t *self, const char *name);

/* Note that a worker was turned away. True: log it now. */
bool places_turn_away(places_t *self, int64_t now_ms);
/* Has a worker been turned away that may still go on asking? */
bool places_somebody_is_turned_away(const places_t *self);
/* True, once: no worker has been turned away for a while. */
bool places_forget_turned_away(places_t *self, int64_t now_ms);

/* Choose places that are due into ret, at most one for each peer, so that a peer with much work
 * does not delay the others. at is passed to is_due. Returns how many. */
int places_choose(places_t *self, bool (*is_due)(const place_t *, int64_t), int64_t at,
                  place_t *ret[PLACES_PER_TURN]);
/* Let the next turn begin with another place. */
void places_next_turn(places_t *self);
