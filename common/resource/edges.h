/* What the edge workers of all copies have in force, as the config log said it last
 * (common/resource/replog.h), and whether that is enough for an answer. No sockets and no clock
 * in here. Used by the reactor alone. */
#pragma once

#include <czmq.h>
#include <stdbool.h>
#include <stdint.h>

enum { EDGES_MAX = 1024 }; /* workers, of all copies */

typedef struct edges {
    int64_t acked[EDGES_MAX]; /* revisions, one of each live worker */
    int live;
    /* up to that this holds: a later revision may have been told to a worker that is not in it */
    int64_t covered;
    int64_t copies; /* of this service, besides this one */
    bool settling;  /* who is there is not known yet */
} edges_t;

/* A message of the config log, which is emptied: "state" or "settling", covered, copies, a frame
 * for each live worker. Of more workers than find a place it is not known what they have. A
 * message without a word changes nothing. */
void edges_take(edges_t *self, zmsg_t *msg);

/* How many of the live ones have it. */
int edges_acked(const edges_t *self, int64_t revision);

/* All of them have it, and they are all that there are. */
bool edges_have(const edges_t *self, int64_t revision);

/* The lowest revision that one of them has; 0: there are none. */
int64_t edges_lowest(const edges_t *self);
