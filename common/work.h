/* Messages that wait for whichever worker is free next. Any thread may call any of these. */
#pragma once

#include <czmq.h>

typedef struct work work_t;

/* NULL when out of memory. */
work_t *work_new(size_t max);

/* The oldest is taken first. 0, and *msg is taken | -EAGAIN: max of them wait | -ENOMEM. */
int work_put(work_t *self, zmsg_t **msg);

/* Waits for one; NULL once work_stop was called. */
zmsg_t *work_take(work_t *self);

/* Nobody gets any more. */
void work_stop(work_t *self);

size_t work_waiting(work_t *self);

/* After the last worker is gone. */
void work_destroy(work_t **self_p);
