/* Radix tree of paths: the longest match in one walk down the path, whatever the number of routes.
 * A path can be claimed as exact, as prefix, or both, and by several (claim.h). No nginx in here.
 */
#pragma once

#include "services/edge/table/claim.h"

#include <stdbool.h>
#include <stddef.h>

typedef struct tree tree_t;

tree_t *tree_new(void);
void tree_destroy(tree_t **self_p); /* not the claims */

/* Claim path, exact or as prefix; del takes back this claim alone, with what it was put under. */
void tree_put(tree_t *self, const char *path, size_t len, bool exact, claim_t *claim);
void tree_del(tree_t *self, const char *path, size_t len, bool exact, const claim_t *claim);
bool tree_empty(const tree_t *self);

/* exact beats prefix, longer prefix beats shorter. NULL when nothing matches. */
claim_t *tree_find(const tree_t *self, const char *path, size_t len);
