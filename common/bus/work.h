/* Messages that wait for whichever thread is free next. Any thread may call any of these. */
#pragma once

#include "common/bus/shares.h"

#include <czmq.h>

typedef struct work work_t;

/* polled: for work_poll, else for work_take. NULL when out of memory or descriptors. */
work_t *work_new(size_t max, bool polled);

/* The oldest is taken first. 0, and *msg is taken | -EAGAIN: max of them wait | -ENOMEM. */
int work_put(work_t *self, zmsg_t **msg);

/* One of somebody's, who takes turns with others and has a share of the room: see shares_put.
 * Whoever puts so bounds all by itself. */
int work_put_of(work_t *self, const char *owner, const shares_bounds_t *bounds, size_t bytes,
                zmsg_t **msg);

/* The same, but what there is no room or no memory for waits until there is. False: work_stop
 * was called meanwhile, and *msg is the caller's. */
bool work_put_wait(work_t *self, zmsg_t **msg);

/* Waits for one; NULL once work_stop was called. */
zmsg_t *work_take(work_t *self);

/* For a reactor: a descriptor that is readable while messages wait, and the oldest of them; NULL:
 * none. It may be readable once more than there are messages. */
int work_fd(const work_t *self);
zmsg_t *work_poll(work_t *self);

/* Nobody gets any more. */
void work_stop(work_t *self);

size_t work_waiting(work_t *self);

/* What those that wait were said to take. */
size_t work_bytes(work_t *self);

/* After the last worker is gone. */
void work_destroy(work_t **self_p);
