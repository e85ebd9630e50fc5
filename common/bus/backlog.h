/* Requests of a service that wait for a worker. There are three lanes, in each of which peers
 * take turns and have a share of the room (common/bus/shares.h): those of peers that hold
 * leases, which ask for everybody (the gateway); of these, the ones that keep a worker busy for
 * long; and those of guests: an operator's command line, who watches events. The latter two run
 * beside the first, on half of the workers at most, so neither keeps a call of the API waiting.
 * One thread puts and is told what is done, any thread takes. */
#pragma once

#include "common/bus/shares.h"

#include <czmq.h>

/* What may wait. The gateway's copies may have one key, and each has 1,024 calls under way at
 * most. */
enum {
    BACKLOG_ALL = 4096,
    BACKLOG_OWN = 3072,
    BACKLOG_ALL_BYTES = 128 << 20,
    BACKLOG_OWN_BYTES = 96 << 20,
    BACKLOG_GUESTS_ALL = 2048,
    BACKLOG_GUESTS_OWN = 256,
    BACKLOG_GUESTS_ALL_BYTES = 32 << 20,
    BACKLOG_GUESTS_OWN_BYTES = 4 << 20
};

typedef struct backlog backlog_t;

typedef enum backlog_lane { BACKLOG_QUICK, BACKLOG_SLOW, BACKLOG_GUEST } backlog_lane_t;

/* For so many workers. NULL: no memory. */
backlog_t *backlog_new(int workers);
void backlog_destroy(backlog_t **self_p);

/* 0, and *msg is taken | -EDQUOT: its owner has its share | -EAGAIN: there is no room for
 * anybody | -ENOMEM. */
int backlog_put(backlog_t *self, const char *owner, backlog_lane_t lane, zmsg_t **msg);

/* A worker is done with one of that lane. */
void backlog_done(backlog_t *self, backlog_lane_t lane);

/* For workers: waits for a request; NULL once backlog_stop was called. */
zmsg_t *backlog_take(backlog_t *self);
void backlog_stop(backlog_t *self);

size_t backlog_waiting(const backlog_t *self);

/* Is so much waiting that calls of the API are refused? */
bool backlog_is_full(const backlog_t *self);
