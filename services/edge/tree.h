/* Radix tree of paths: the longest match in one walk down the path, whatever the number of routes.
 * A path can be stored as exact, as prefix, or both. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct tree tree_t;

tree_t *tree_new(void);
void tree_destroy(tree_t **self_p); /* not the values */

/* Store value under path; exact or prefix. Returns what was there. */
void *tree_put(tree_t *self, const char *path, size_t len, bool exact, void *value);
void *tree_del(tree_t *self, const char *path, size_t len, bool exact);
bool tree_empty(const tree_t *self);

/* exact beats prefix, longer prefix beats shorter. NULL when nothing matches. */
void *tree_find(const tree_t *self, const char *path, size_t len);
