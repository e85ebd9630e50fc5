/* Requests of a service that wait for a worker, in lanes. Quick: requests of peers that hold
 * leases, that is of the gateway, on behalf of API clients. Slow: requests of the same peers that
 * keep a worker busy for long. Guests: requests of everybody else: what edges ask for people who
 * sign in or are, an operator's command line, a subscriber. Slow guests: those of them that keep a
 * worker busy for long, as a sign-out of many people does. Where a service has three workers or
 * more, one of them is left to guests that are not slow, whatever the others ask for: a quick call
 * may be a list that PostgreSQL searches for seconds. And slow ones and guests of both kinds
 * together get half of the workers at most (two of three), so they never keep a quick API call
 * waiting, and slow ones of both kinds all of these but one. Where a service has one worker or two,
 * a guest waits for what runs. The lane that has had no turn for longest is next, and in each lane
 * owners take turns and have bounded room (common/bus/shares.h): an owner is a peer, and of the
 * gateway and of an edge an account that it speaks for ("edge@a ac_1"), so that one account's
 * requests, however many and slow, are one other's wait. Any thread may call every function. */
#pragma once

#include "common/bus/shares.h"

#include <czmq.h>

/* How much may wait, in each lane. All copies of the gateway may share one key, and each copy has
 * at most 1,024 calls under way. */
enum {
    BACKLOG_ALL = 4096,
    BACKLOG_OWN = 3072,
    BACKLOG_ALL_BYTES = 128 << 20,
    BACKLOG_OWN_BYTES = 96 << 20,
    BACKLOG_GUESTS_ALL = 2048,
    BACKLOG_GUESTS_OWN = 256, /* of a peer, and half of it of one account that it speaks for */
    BACKLOG_GUESTS_ALL_BYTES = 64 << 20,
    BACKLOG_GUESTS_OWN_BYTES = 16 << 20 /* sign-ins of edges have up to 512 KiB each */
};

typedef struct backlog backlog_t;

typedef enum backlog_lane {
    BACKLOG_QUICK,
    BACKLOG_SLOW,
    BACKLOG_GUEST,
    BACKLOG_SLOW_GUEST,
    BACKLOG_LANES /* how many there are */
} backlog_lane_t;

/* A backlog for so many workers. NULL: no memory. */
backlog_t *backlog_new(int workers);
void backlog_destroy(backlog_t **self_p);

/* Append a request to a lane. 0, and *msg is taken over | -EDQUOT: its owner is at its bound |
 * -EAGAIN: the lane is at its bound | -ENOMEM. */
int backlog_put(backlog_t *self, const char *owner, backlog_lane_t lane, zmsg_t **msg);

/* As backlog_put, for a request that holds its worker for somebody, in whichever lane: where there
 * are several workers one holder never has all of them, nor all that guests leave. "": for
 * nobody. */
int backlog_put_held(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                     zmsg_t **msg);

/* As backlog_put_held, for a request that was let in before and comes back: without bounds, because
 * it was counted where it waited (common/resource/waits.h), and refusing it would lose what it
 * waited for. */
void backlog_put_again(backlog_t *self, const char *owner, const char *holder, backlog_lane_t lane,
                       zmsg_t **msg);

/* A worker has finished a request of that lane and holder: another one may begin. */
void backlog_done(backlog_t *self, backlog_lane_t lane, const char *holder);

/* For workers: take the next request, waiting for one. NULL: backlog_stop was called. */
zmsg_t *backlog_take(backlog_t *self);
void backlog_stop(backlog_t *self);

/* Requests that no worker has taken yet. */
size_t backlog_waiting(backlog_t *self);

/* Are so many requests waiting that further API calls are refused? */
bool backlog_is_full(backlog_t *self);
