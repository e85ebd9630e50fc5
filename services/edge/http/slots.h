/* A few slots, of which each is taken for a short while: how many of them a client has, and the
 * network above it, is bounded by the rule of common/base/portion_rule.h, or whoever makes a few
 * requests that do not end would have all of them. Who has none may have the last one; and those
 * who speak for many clients have half of all, together. No nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SLOTS_CLIENTS = 8192, SLOTS_MAX = UINT16_MAX };

/* All zero: none is taken. Clients whose hashes fall together are one. */
typedef struct {
    size_t taken;
    size_t of_many; /* of these, by those who speak for many */
    uint16_t clients[SLOTS_CLIENTS];
    uint16_t networks[SLOTS_CLIENTS]; /* above clients */
} slots_t;

/* Zero: has none. */
typedef struct {
    uint32_t client;
    bool taken;
} slots_part_t;

/* Take one of `all` slots, at most SLOTS_MAX, on behalf of client, by its hash (share_client of
 * share.h), which has percent of a portion; 0: it speaks for many. False: there is none for it. A
 * part that has one already keeps that. */
bool slots_take(slots_t *self, slots_part_t *part, size_t all, size_t percent, uint32_t client);
/* Give it back, if it was taken. */
void slots_give(slots_t *self, slots_part_t *part);
