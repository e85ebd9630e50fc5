/* Acknowledgements that wait until the names that came with a change were answered for, so that
 * whoever made the change finds it working. An acknowledgement has a counter of names (a wait); a
 * name has the waiters that stand for it in such counters. */
#pragma once

#include "services/edge/control/resolve_credit.h"

/* Counted references: who made it has one, and each name that is waited for. */
typedef struct resolve_wait resolve_wait_t;

/* One name in one wait. */
typedef struct resolve_waiter resolve_waiter_t;

/* All waiters of all names that count at present. All zero: none. */
typedef struct resolve_waits {
    resolve_waiter_t *first;
} resolve_waits_t;

/* Make a wait for no name yet; the caller has the only reference. */
resolve_wait_t *resolve_wait_new(void);

/* Give one reference back; NULL: nothing. */
void resolve_wait_drop(resolve_wait_t *wait);

/* How many names it still waits for; 0 for NULL. */
size_t resolve_wait_pending(const resolve_wait_t *wait);

/* wait waits for one name more. *of_name: the name's waiters, of which the new one becomes the
 * first. credit: of the name's account; it must live as long as the name has waiters. */
void resolve_waits_add(resolve_waits_t *self, resolve_waiter_t **of_name, resolve_wait_t *wait,
                       resolve_credit_t *credit, int64_t now_ms);

/* The name was answered for, or is gone: nothing waits for it any more. *of_name is NULL then. */
void resolve_waits_end(resolve_waits_t *self, resolve_waiter_t **of_name, int64_t now_ms);

/* Names of accounts whose credit is used up are waited for no more. */
void resolve_waits_release_spent(resolve_waits_t *self, int64_t now_ms);
