/* Which events a subscriber misses, by their numbers: each event type counts its own without gaps (proto/WIRE.md). Copies of
 * the event service share the numbers, so one that is behind may come later than its followers: a gap is one when it has been
 * open for a while; and what is behind all that came, when nothing has come for a while. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GAP_TYPE_MAX = 96, GAP_TYPES_MAX = 256, GAPS_MAX = 1024, GAP_GRACE_MS = 2000 };
enum { GAP_MEMORY_MS = 60000 }; /* a database put back from a backup gives numbers again */

typedef struct gap {
    int type;
    int64_t first, last;
    int64_t due_ms;
    bool told, fetched;
} gap_t;

typedef struct gaps {
    struct {
        char name[GAP_TYPE_MAX + 1];
        int64_t next;
        int64_t newest, newest_ms; /* the highest number that came, and when one came last */
    } types[GAP_TYPES_MAX];
    int type_count;
    gap_t open[GAPS_MAX]; /* and those told last: an event of them may still come */
    int count;
    int64_t overflowed; /* events of gaps that there was no room to remember */
} gaps_t;

/* An event came. False: it was fetched from the log before. */
bool gaps_seen(gaps_t *self, const char *type, int64_t number, int64_t now_ms);

/* The event service has numbered events of this type up to head. first: what was before is not ours, as we just began. */
void gaps_head(gaps_t *self, const char *type, int64_t head, bool first, int64_t now_ms);

/* The gap that is to be told next; NULL: none yet. Mark it with gaps_told, or put it off. */
gap_t *gaps_due(gaps_t *self, int64_t now_ms);
void gaps_told(gap_t *gap, bool fetched);
