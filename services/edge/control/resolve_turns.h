/* Which name is asked for next. A name that nobody answers for can take a query twenty seconds, so
 * accounts ask in turn, each has only a few queries at once, and names that were never tried go
 * before those that are only refreshed: the dead names of one account delay nobody else's. Names
 * and accounts embed what is declared here; nothing in here allocates. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum {
    RESOLVE_QUERIES_MAX = 64,      /* of all accounts, at once: one thread of the helper each */
    RESOLVE_ACCOUNT_MAX = 4,       /* of one account */
    RESOLVE_ACCOUNT_AGAIN_MAX = 2, /* and of those, for names that were tried before */
    RESOLVE_CROWD = RESOLVE_QUERIES_MAX / 2 /* from so many on an account has one, for a name never
                                               tried, and what is only refreshed waits */
};

typedef enum {
    RESOLVE_FRESH, /* names never tried */
    RESOLVE_AGAIN, /* names that were */
    RESOLVE_KINDS
} resolve_kind_t;

/* A name's place in one list. */
typedef struct resolve_item {
    struct resolve_item *before, *after;
} resolve_item_t;

/* Names in the order in which they came. All zero: empty. */
typedef struct resolve_list {
    resolve_item_t *first, *last;
} resolve_list_t;

/* Put a name that is in no list to the end; take one out that is in this list. */
void resolve_list_add(resolve_list_t *self, resolve_item_t *item);
void resolve_list_remove(resolve_list_t *self, resolve_item_t *item);

/* An account's names that wait for a query, and its queries under way. All zero: none. It is in
 * turn while it has names that wait. */
typedef struct resolve_asker {
    resolve_list_t queue[RESOLVE_KINDS];
    struct resolve_asker *before[RESOLVE_KINDS], *after[RESOLVE_KINDS]; /* in turn */
    size_t asked[RESOLVE_KINDS];
} resolve_asker_t;

/* All zero: nobody asks. */
typedef struct resolve_turns {
    resolve_asker_t *first[RESOLVE_KINDS], *last[RESOLVE_KINDS];
    size_t asked[RESOLVE_KINDS]; /* by all accounts */
} resolve_turns_t;

/* A name begins to wait for a query, or does so no more. */
void resolve_turns_add(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind,
                       resolve_item_t *item);
void resolve_turns_remove(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind,
                          resolve_item_t *item);

/* Take the name that is asked for next out of its queue and count its query; NULL: none may be
 * asked for now. *ret_kind is of its query, for resolve_turns_answered. */
resolve_item_t *resolve_turns_next(resolve_turns_t *self, resolve_kind_t *ret_kind);

/* A query of the account is over. */
void resolve_turns_answered(resolve_turns_t *self, resolve_asker_t *asker, resolve_kind_t kind);
