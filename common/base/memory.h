/* Out of memory: one policy for all programs but the edge, whose pools return NULL and whose
 * requests then end with 500.
 *
 * Small, bounded allocations are made with these functions and need no check: without such memory
 * the program cannot go on, and half done work would be worse, so the process ends with a line that
 * says what it was for. The supervisor restarts it, and unconfirmed work is sent again. CZMQ does
 * the same. Allocations that are large, or whose size a peer determines, are bounded first, made
 * with malloc, and refused on failure: -ENOMEM, or the error of a body that is too large. */
#pragma once

#include <stddef.h>

enum { MEMORY_SMALL = 64 << 10 /* bytes */ };

/* Zeroed memory; the caller frees it. size is a constant of at most MEMORY_SMALL; what: for the
 * line. */
#define memory_new(size, what)                                                                     \
    ({                                                                                             \
        _Static_assert((size) <= MEMORY_SMALL, "large memory is asked for with malloc");           \
        memory_zeroed(size, what);                                                                 \
    })
/* What memory_new calls. */
void *memory_zeroed(size_t size, const char *what);

/* A copy of a text whose length is bounded; the caller frees it. */
char *memory_copy(const char *text, const char *what);

/* Check what another function allocated: returns pointer, or ends the process if it is NULL. */
void *memory_need(void *pointer, const char *what);

/* The same policy for jansson: a failed allocation of up to MEMORY_SMALL ends the process, a larger
 * one returns NULL, which decoders report. Ignored, it could drop a field, perhaps the one that
 * denies something. Call it before the first thread starts. */
void memory_guard_json(void);

/* Begin and end the decoding of untrusted input on this thread. Each value is small, but the sender
 * determines how many there are: an empty object of two bytes takes 220 here. So between begin and
 * end every failed allocation gives NULL, and so does one beyond bytes in total (freed memory
 * counts). The decoder must call the end, and refuse the input on an error: the value may be
 * incomplete. End returns 0 | -ENOMEM | -EMSGSIZE. Decodings do not nest. */
void memory_json_begin_outside(size_t bytes);
int memory_json_end_outside(void);

struct json_t;
/* Bytes that a value holds, about, with all that is in it; NULL: none. */
size_t memory_json_weight(const struct json_t *value);
