/* A fair queue (round robin by owner). Each item has an owner, the key that a peer showed, and each
 * owner may have a bounded number of items and bytes waiting. Items are taken one owner after the
 * other, the oldest of each first, so a busy owner delays the others by one item at most. The
 * bounds come with each call of shares_put, so owners may have different ones. Not safe for several
 * threads: common/bus/work.h has the lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct shares shares_t;

/* How much may wait before an item is refused. An owner with nothing waiting may add one item of
 * any size. */
typedef struct shares_bounds {
    size_t own, own_bytes; /* of its owner */
    size_t all, all_bytes; /* of everybody */
} shares_bounds_t;

/* destroy frees the items that still wait when the queue is destroyed; it takes the item's address,
 * as czmq's destructors do. NULL: no memory. */
shares_t *shares_new(void (*destroy)(void **item));
void shares_destroy(shares_t **self_p);

/* Append an item of so many bytes; the name of the owner is copied. 0, and the queue owns the item
 * | -EDQUOT: its owner is at its bound | -EAGAIN: the queue is at its bound | -ENOMEM. */
int shares_put(shares_t *self, const char *owner, const shares_bounds_t *bounds, size_t bytes,
               void *item);

/* Take the next item, which is the caller's then. NULL: nothing waits. */
void *shares_take(shares_t *self);

/* Number of items that wait, and the sum of their bytes as shares_put was told. */
size_t shares_waiting(const shares_t *self);
size_t shares_bytes(const shares_t *self);
