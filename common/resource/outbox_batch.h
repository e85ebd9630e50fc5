/* Which audit events of a service's outbox go as one batch, and under what number: rules only.
 * What is not acknowledged goes again, exactly the same events under the same number, because an
 * acknowledgement may come after its batch was sent again; no number is ever used for anything
 * else. Where one of several events is refused it is not known which: each of them goes alone. */
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
    int64_t number; /* what it is called */
    int count;      /* events that are in it; 0: there is none to be sent */
    int rows;       /* that were read, from the oldest on: there may be more than are in it */
    int alone;      /* events that go in batches of their own from here: one of them was refused */
} outbox_batch_t;

/* After the last number of the process before this one. */
void outbox_batch_init(outbox_batch_t *self, int64_t now_ms);

/* These rows, of so many bytes each, are the oldest: as many of them as go at once. n 0: there
 * is nothing to send. */
void outbox_batch_begin(outbox_batch_t *self, const int *bytes, int n);

/* It was acknowledged, or what was refused was set aside. True: more may wait. */
bool outbox_batch_end(outbox_batch_t *self);

/* It was refused. True: its only event is to be set aside | false: nobody knows which one it is,
 * and they go alone. */
bool outbox_batch_refuse(outbox_batch_t *self);

/* The rows that it was made of are not ours any more: another copy may send them. */
void outbox_batch_drop(outbox_batch_t *self);

/* Add an event, JSON text, as a record (proto/WIRE.md). 0 | -EBADMSG: it is none | -ENOMEM. */
int outbox_batch_add(const char *text, msgpack_sbuffer *body);
