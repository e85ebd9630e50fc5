/* Memory that runs out: one policy for all programs but the edge, whose pools return NULL and whose
 * requests then end with 500.
 *
 * What is small and bounded is asked for here, and never tested: without it nothing of the program
 * can go on, and half done work would be worse, so the process ends with a line that says what it
 * wanted. Its supervisor starts it again; what was not confirmed is sent again. CZMQ does the same.
 * What is large, or as large as somebody outside says, is bounded first, asked for with malloc, and
 * refused where there is none: -ENOMEM, or the error of a body that is too large. */
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

/* What somebody else allocated, or the end of the process when that is NULL. Returns pointer. */
void *memory_need(void *pointer, const char *what);

/* The same for jansson: objects and strings up to MEMORY_SMALL end the process; larger ones return
 * NULL, which decoders report. A field that is missing because there was no memory could be the
 * one that refuses something. Call it before the first thread starts. */
void memory_guard_json(void);
