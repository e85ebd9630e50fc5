/* How much anybody may have of something of which there is only so much: the less is left, the
 * less. Of what is left when he has taken more, the same part as that is of all: with half left a
 * fourth of all, with a tenth left a hundredth. So one alone may have 38 percent, and however many
 * take all that they can get, something is left for one more. percent makes portions larger or
 * smaller. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* May who has `has` take `more`, where `left` of `all`, which is at most 2^36, are left? percent is
 * at most 10,000. */
bool portion_allows(size_t has, size_t more, size_t all, size_t left, size_t percent);
/* The same of one more where there are few of them: who has none may have the last one. */
bool portion_allows_one(size_t has, size_t all, size_t left, size_t percent);
