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

/* Classify a header by its name, given in lower case. Most names cost one table lookup. */
forwarded_t forwarded_of(const unsigned char *name, size_t len);
