/* A fair queue (round robin by owner). Each item has an owner, the key that a peer showed, and each
 * owner may have a bounded number of items and bytes waiting. Items are taken one owner after the
 * other, the oldest of each first, so a busy owner delays the others by one item at most. The
 * bounds come with each call of shares_put, so owners may have different ones. Not safe for several
 * threads: common/bus/work.h and backlog.h have a lock. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct shares shares_t;

/* How much may wait before an item is refused. An owner with nothing waiting may add one item of
 * any size. */
typedef struct shares_bounds {
    size_t own, own_bytes;     /* of its owner */
    size_t all, all_bytes;     /* of everybody */
    size_t group, group_bytes; /* of its owner's group; 0: as much as there is */
} shares_bounds_t;

/* destroy frees the items that still wait when the queue is destroyed; it takes the item's address,
 * as czmq's destructors do. NULL: no memory. */
shares_t *shares_new(void (*destroy)(void **item));
void shares_destroy(shares_t **self_p);

/* Append an item of so many bytes; the name of the owner is copied. 0, and the queue owns the item
 * | -EDQUOT: its owner is at its bound | -EAGAIN: the queue is at its bound | -ENOMEM. */
int shares_put(shares_t *self, const char *owner, const shares_bounds_t *bounds, size_t bytes,
               void *item);

/* Owners whose names begin with the same word, up to a space, have one turn together from now on,
 * and within it take turns among themselves: who has many names has no more turns than others.
 * Before anything waits. */
void shares_turn_by_first_word(shares_t *self);

/* Items that were taken are worked on, and each may be somebody's (a holder): from now on so many
 * of one holder at most are worked on at a time. An owner whose next item must wait for that has no
 * turn. 0: as many as there are, which holds until this is called. */
void shares_bound_held(shares_t *self, size_t max);

/* Owners may be of a group: so many items of one group at most are worked on at a time, and of
 * these its owners have portions (common/base/portion_rule.h) of that many percent; percent 0: no
 * portions. Until this is called there are as many as there are. */
void shares_bound_groups(shares_t *self, size_t max, size_t percent);

/* As shares_put, for an item of a holder, whose name is copied; "": it is nobody's. */
int shares_put_held(shares_t *self, const char *owner, const char *holder,
                    const shares_bounds_t *bounds, size_t bytes, void *item);

/* The same, of an owner that is of a group, which is the same for all of its items; "": of none. */
int shares_put_grouped(shares_t *self, const char *owner, const char *group, const char *holder,
                       const shares_bounds_t *bounds, size_t bytes, void *item);

/* An item of that holder is worked on that another queue had: it counts as if taken here. */
void shares_hold(shares_t *self, const char *holder);
/* An item of that holder is worked on no more. */
void shares_release(shares_t *self, const char *holder);
/* The same for an item of that owner, which is of that group. */
void shares_release_grouped(shares_t *self, const char *owner, const char *group);

/* Take the next item, which is the caller's then. NULL: nothing waits that may be taken. */
void *shares_take(shares_t *self);

/* The holder of the item that shares_take would take now, borrowed until that is called; NULL:
 * it would take none. */
const char *shares_next_holder(shares_t *self);

/* Number of items that wait, and the sum of their bytes as shares_put was told. */
size_t shares_waiting(const shares_t *self);
size_t shares_bytes(const shares_t *self);
