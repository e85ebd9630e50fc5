/* Which audit events of a service's outbox form a batch, and the batch's number: rules only. A
 * batch without acknowledgement is sent again with exactly the same events and number, because a
 * late acknowledgement names only the number; a number is never reused. When a batch of several
 * events is refused it is not known which event is at fault: each is sent alone. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <stdint.h>

enum {
    OUTBOX_BATCH_MAX = 64,
    OUTBOX_BATCH_BYTES = 512 << 10, /* of events as text, or one that is larger */
    OUTBOX_TYPE_MAX = 96
};

typedef struct outbox_batch {
    int64_t number; /* number of the batch */
    int count;      /* events in it; 0: there is nothing to send */
    int rows;       /* rows read, oldest first; may be more than count */
    int alone;      /* so many events are sent one by one, because one of them was refused */
} outbox_batch_t;

/* Numbers begin after all those of earlier processes: with the wall clock, now_ms since 1970. */
void outbox_batch_init(outbox_batch_t *self, int64_t now_ms);

/* Begin a batch with as many of the n oldest rows as fit; bytes: their sizes. n 0: nothing to
 * send. */
void outbox_batch_begin(outbox_batch_t *self, const int *bytes, int n);

/* The batch was acknowledged, or its refused event was moved away. True: there may be more rows. */
bool outbox_batch_end(outbox_batch_t *self);

/* The batch was refused. True: its only event is to be moved away | false: it is not known which of
 * its events is at fault, and they are sent one by one. */
bool outbox_batch_refuse(outbox_batch_t *self);

/* Drop the batch: another copy may send its rows. */
void outbox_batch_drop(outbox_batch_t *self);

/* Append an event, JSON text, as a record (proto/WIRE.md). 0 | -EBADMSG: malformed | -ENOMEM. */
int outbox_batch_add(const char *text, msgpack_sbuffer *body);
