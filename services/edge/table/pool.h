/* Numbers of keep-alive pools: one for each TLS name that backends have, in all tables of the
 * process, because pooled connections outlive a table. */
#pragma once

#include <stdint.h>

/* A backend with this TLS name comes: its pool's number, never 0. name is copied. A connection that
 * was verified for one name is never reused for another, also not for one that comes when the last
 * backend of a name is gone: numbers are not used again. */
uint64_t pool_join(const char *name);

/* A backend that joined the name's pool is gone. */
void pool_leave(const char *name);
