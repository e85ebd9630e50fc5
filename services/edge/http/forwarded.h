/* Which request headers claim what only the edge, or a proxy that it trusts, can know:
 * proto/forwarded.def. No nginx in here. */
#pragma once

#include <stddef.h>

typedef enum {
    FORWARDED_NONE,
    FORWARDED_NEVER,
    FORWARDED_PROXY,
    FORWARDED_FOR,
    FORWARDED_PROTO,
    FORWARDED_HOST
} forwarded_t;

enum { FORWARDED_PREFIX_MAX = 64 };

/* Names that begin with prefix are the edge's own, too (NEVER), like a row of the table; it is
 * copied. Before the first header is classified; a prefix of more than FORWARDED_PREFIX_MAX bytes
 * is cut to that. */
void forwarded_begin(const char *prefix, size_t len);

/* Classify a header by its name, given in lower case. Most names cost one table lookup. */
forwarded_t forwarded_of(const unsigned char *name, size_t len);
