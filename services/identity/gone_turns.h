/* Turns of places whose sessions end: one that has very many of them keeps no other waiting. */
#pragma once

#include <stddef.h>
#include <stdint.h>

enum { GONE_PLACES_MAX = 500, GONE_BATCH_MAX = 100 /* sessions of one turn */ };

/* End up to most sessions of the place with that number. *ret_count: how many; fewer than most: it
 * has no more. 0 | fault, with which all ends. */
typedef int gone_turn_fn(void *context, size_t place, int most, int *ret_count);

/* Each place (GONE_PLACES_MAX at most) has a turn, and further ones as long as it has sessions and
 * fewer than bound have ended. *ended is raised by how many do. 0 | fault of a turn. */
int gone_take_turns(size_t places, int64_t bound, gone_turn_fn *turn, void *context,
                    int64_t *ended);
