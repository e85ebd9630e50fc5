/* Radix tree of paths: the longest match in one walk down the path, whatever the number of routes.
 * A path can be claimed as exact, as prefix, or both, and by several (claim.h). Paths are len bytes
 * without NUL; claims stay their owners'. Memory is the table's (slab.h). No nginx in here. */
#pragma once

#include "services/edge/table/claim.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct tree tree_t;

/* An empty tree; never NULL. */
tree_t *tree_new(void);

/* Free the tree, but not the claims, and set *self_p to NULL, which it may be already. */
void tree_destroy(tree_t **self_p);

/* Claim a path, exact or as prefix; del takes this one claim back, with the arguments that it was
 * put with. */
void tree_put(tree_t *self, const char *path, size_t len, bool exact, claim_t *claim);
void tree_del(tree_t *self, const char *path, size_t len, bool exact, const claim_t *claim);

/* Is nothing claimed? */
bool tree_empty(const tree_t *self);

/* The first claim on what matches the path best: exact beats prefix, a longer prefix a shorter one.
 * NULL: nothing matches. */
claim_t *tree_find(const tree_t *self, const char *path, size_t len);
