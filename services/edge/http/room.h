/* Room in a worker's memory for bodies that route modules read before their request goes on. Whoever
 * sends requests decides how many such bodies there are and how long they take: so all of them have a
 * bound, and those of one account a fourth of it. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ROOM_MAX = 256 << 20, ROOM_SHARE = ROOM_MAX / 4, ROOM_ACCOUNTS = 1024 };

/* All zero: nothing is taken. Accounts whose hashes fall together have one share. */
typedef struct {
    size_t taken;
    size_t shares[ROOM_ACCOUNTS];
} room_t;

/* What a body has of it; bytes 0: nothing. One account as long as it has anything. */
typedef struct {
    size_t bytes;
    uint32_t account;
} room_part_t;

/* Take room for bytes more, on behalf of part->account, the hash of the account's id. False: there is
 * none, and *part has what it had. */
bool room_take(room_t *self, room_part_t *part, size_t bytes);
/* Give all of it back. */
void room_give(room_t *self, room_part_t *part);
