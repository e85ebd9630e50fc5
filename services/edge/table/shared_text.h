/* A long text of the configuration with which questions to identity end. What waits or is being
 * sent holds it by reference, so that it is in memory once, and as long as one of those needs it,
 * whatever becomes of its route. A list of such questions that bounds its bytes counts a text once,
 * however many of the list hold it. For one thread only. */
#pragma once

#include <stddef.h>

/* The lists. */
typedef enum shared_list { SHARED_WAITS, SHARED_UNSENT, SHARED_LISTS } shared_list_t;

typedef struct shared_text {
    unsigned refs;
    unsigned held[SHARED_LISTS]; /* by how many of the list */
    size_t len;
    char at[]; /* with a NUL behind it */
} shared_text_t;

/* A copy of len bytes, with one reference. Never NULL (slab.h). */
shared_text_t *shared_text_new(const char *text, size_t len);

/* One reference more. Returns self; NULL: nothing. */
shared_text_t *shared_text_ref(shared_text_t *self);

/* One less, and *self_p is NULL; NULL is fine. */
void shared_text_unref(shared_text_t **self_p);

/* Bytes by which the list grows if one more of it holds the text; 0 of NULL, as below. */
size_t shared_text_cost(const shared_text_t *self, shared_list_t list);

/* One of the list has come, or goes. Returns by how many bytes the list grows, or shrinks. */
size_t shared_text_enter(shared_text_t *self, shared_list_t list);
size_t shared_text_leave(shared_text_t *self, shared_list_t list);

/* What each of the list that holds it counts for: all of them together, the whole text. */
size_t shared_text_part(const shared_text_t *self, shared_list_t list);
