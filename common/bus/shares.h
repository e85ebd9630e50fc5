/* A queue with shares: what waits has an owner (the key that a peer showed), and each owner has
 * so much room and no more. It is taken by turns, one of each owner that has something waiting,
 * the oldest of it first: what one owner brings makes nobody else wait for more than one of its
 * own. Bounds are told with each item, so owners may have unequal ones. No thread's own: see
 * common/bus/work.h. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct shares shares_t;

/* What may wait before an item is refused. An owner that has nothing waiting may have one item
 * of any size. */
typedef struct shares_bounds {
    size_t own, own_bytes; /* of its owner */
    size_t all, all_bytes; /* of everybody */
} shares_bounds_t;

/* destroy is for items that still wait at the end, and takes the item's address. NULL: no
 * memory. */
shares_t *shares_new(void (*destroy)(void **item));
void shares_destroy(shares_t **self_p);

/* Copies owner. 0, and the item is taken | -EDQUOT: its owner has its share | -EAGAIN: there is
 * no room | -ENOMEM. */
int shares_put(shares_t *self, const char *owner, const shares_bounds_t *bounds, size_t bytes,
               void *item);

/* The next in turn, the caller's; NULL: nothing waits. */
void *shares_take(shares_t *self);

size_t shares_waiting(const shares_t *self);
size_t shares_bytes(const shares_t *self);
