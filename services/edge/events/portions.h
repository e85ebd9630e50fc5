/* Which accounts the events belong to that a worker keeps. Whoever sends requests decides how many
 * events there are, and while nobody takes them they fill ring and spool: so when less than a
 * fourth of these is free an account gets none of it beyond as much as is free, and loses its own
 * events before others lose theirs. However many accounts take all that they can get, n, one part
 * in n + 1 of all is left for the next one.
 *
 * Events are kept and given up in order. So an account's bytes are counted by segments of all that
 * was ever kept, and those of the segments that are still kept are added up: at most a segment too
 * many. Nothing allocates, and a call costs the same however many events and accounts there are. No
 * nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    PORTION_FREE = 4, /* part of all: while more is free, anybody may have any of it */
    PORTIONS_SEGMENTS = 16,
    PORTIONS_ROWS = PORTIONS_SEGMENTS + 1, /* all of it, from the middle of a segment on */
    PORTIONS_ACCOUNTS = 1024               /* accounts whose hashes fall together have one share */
};

/* All zero but for segment_bytes: nothing was kept yet. */
typedef struct portions {
    uint64_t segment_bytes; /* what there is room for, divided by PORTIONS_SEGMENTS */
    uint64_t written;       /* bytes of events ever */
    uint64_t bytes[PORTIONS_ROWS][PORTIONS_ACCOUNTS];
} portions_t;

/* An event of so many bytes is kept; account is the hash of an account's id. */
void portions_add(portions_t *self, uint32_t account, size_t bytes);

/* May an event of this account be kept, when `held` of the `all` bytes that there is room for are
 * taken? */
bool portions_may(const portions_t *self, uint32_t account, uint64_t held, uint64_t all);
