/* A map of strings to pointers, by linear hashing (Litwin 1980): it grows by one bucket with an
 * insert, so no insert ever pauses to rehash. Keys are len bytes, copied, and may hold any byte;
 * values are the caller's and never NULL. Memory is the table's (slab.h). No nginx in here. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef struct strmap strmap_t;

/* An empty map; never NULL. */
strmap_t *strmap_new(void);

/* Free the map, but not the values, and set *self_p to NULL, which it may be already. */
void strmap_destroy(strmap_t **self_p);

/* The value of the key; NULL: it has none. */
void *strmap_get(const strmap_t *self, const char *key, size_t len);

/* Insert or replace; the key is copied. Returns the value that was there, or NULL. */
void *strmap_put(strmap_t *self, const char *key, size_t len, void *value);

/* Remove; returns the value, or NULL. */
void *strmap_del(strmap_t *self, const char *key, size_t len);

/* Remove any one entry and return its value; NULL when empty. A run of pops is linear. */
void *strmap_pop(strmap_t *self);

/* How many entries there are. */
size_t strmap_count(const strmap_t *self);

/* Walk: start with both cursors 0; returns values until NULL. The map must not change meanwhile. */
void *strmap_next(const strmap_t *self, size_t *cursor_bucket, void **cursor_node);
