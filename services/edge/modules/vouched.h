/* What upstreams are told of sessions, as identity signed it: JWTs, of one worker, beside the
 * sessions (sessions.h). Their memory is bounded: who is not looked for longest makes room.
 * No nginx in here, and no clock: times are given, of any clock that never goes back. For one
 * thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { VOUCHED_HASH_BYTES = 32, VOUCHED_JWT_MAX = 4096 };

typedef struct vouched vouched_t;

/* Room for about so many bytes. NULL: no memory. */
vouched_t *vouched_new(size_t bytes);
void vouched_destroy(vouched_t **self_p);

/* The JWT of the session with that hash; NULL: none that lasts, or it was made when something else
 * was known of the session (said, a hash of that). *ret_late: another should be asked for, and from
 * now on *ret_late is false for retry_ms. Borrowed until the next call. */
const char *vouched_find(vouched_t *self, const unsigned char *hash, uint64_t said, int64_t now_ms,
                         int64_t retry_ms, size_t *ret_len, bool *ret_late);

/* Keep one, in place of what there is of that session: until until_ms, and another is asked for
 * from renew_ms on. One that is longer than VOUCHED_JWT_MAX, or for which there is no memory, is
 * not kept. */
void vouched_put(vouched_t *self, const unsigned char *hash, uint64_t said, const char *jwt,
                 size_t len, int64_t renew_ms, int64_t until_ms);

/* The session is over. */
void vouched_drop(vouched_t *self, const unsigned char *hash);

/* Bytes that are taken, and how many have one. */
size_t vouched_bytes(const vouched_t *self);
size_t vouched_count(const vouched_t *self);
