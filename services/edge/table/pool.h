/* Numbers of keep-alive pools: one for each account and TLS name that backends have, in all tables
 * of the process, because pooled connections outlive a table. Accounts share no connection: what
 * one account's request leaves in it, where the upstream reads lengths wrongly, would be answered
 * to another's. */
#pragma once

#include <stdint.h>

/* A backend with this TLS name comes; NULL: it has no TLS. account has at most TABLE_ID_MAX bytes;
 * NULL: nobody said whose it is. Its pool's number, never 0. A connection that was verified for one
 * name is never reused for another, also not for one that comes when the last backend of a name is
 * gone: numbers are not used again. */
uint64_t pool_join(const char *account, const char *name);

/* A backend that joined the pool is gone. */
void pool_leave(const char *account, const char *name);
