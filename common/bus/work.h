/* A queue of messages between threads: whichever worker is free takes the next. Every function may
 * be called from every thread. */
#pragma once

#include "common/bus/shares.h"

#include <czmq.h>

typedef struct work work_t;

/* At most max messages wait. polled: a reactor takes them with work_poll; else threads take them
 * with work_take. NULL: no memory or no descriptor. */
work_t *work_new(size_t max, bool polled);

/* Append a message without an owner. 0, and *msg is taken over | -EAGAIN: max messages wait |
 * -ENOMEM. */
int work_put(work_t *self, zmsg_t **msg);

/* Append a message of an owner, within bounds: see shares_put for turns and results. max does not
 * count here. */
int work_put_of(work_t *self, const char *owner, const shares_bounds_t *bounds, size_t bytes,
                zmsg_t **msg);

/* As work_put, but waits until there is room and memory. False: work_stop was called meanwhile, and
 * *msg is still the caller's. */
bool work_put_wait(work_t *self, zmsg_t **msg);

/* Take the next message, waiting for one. NULL: work_stop was called. */
zmsg_t *work_take(work_t *self);

/* For a reactor: a descriptor that is readable while messages wait, and the next message without
 * waiting (NULL: none). The descriptor may be readable once more after the last message was taken.
 */
int work_fd(const work_t *self);
zmsg_t *work_poll(work_t *self);

/* From now on work_take and work_poll return NULL, and waiting threads wake up. */
void work_stop(work_t *self);

/* Messages that nobody has taken yet. */
size_t work_waiting(work_t *self);

/* Free the queue and its messages, after the last thread that uses it has ended. */
void work_destroy(work_t **self_p);
