/* Finds events that a subscriber missed, by their numbers: each event type has numbers without gaps
 * (proto/WIRE.md). Copies of the event service share the numbers, so an event of a slower copy may
 * arrive after later numbers. So the numbers in a gap count as missed only after the gap has been
 * open for GAP_GRACE_MS, and numbers after the last event when nothing has arrived for as long. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

enum { GAP_TYPE_MAX = 96, GAP_TYPES_MAX = 256, GAPS_MAX = 1024, GAP_GRACE_MS = 2000 };
/* how long reported gaps are remembered; later a number may be used again, by a restored
 * database */
enum { GAP_MEMORY_MS = 60000 };
/* The largest number that JSON readers keep exactly. Larger ones come from no event service and are
 * ignored, so that no sum of 256 types overflows. */
#define GAP_NUMBER_MAX INT64_C(0x1fffffffffffff)

typedef struct gap {
    int type;
    int64_t first, last;
    int64_t due_ms;
    bool told, fetched;
} gap_t;

typedef struct gaps {
    /* The numbers of all types at the start are known (gaps_head with first): a type that was not
     * among them had no event yet, so its numbers count from 1. */
    bool begun;
    struct {
        char name[GAP_TYPE_MAX + 1];
        int64_t next;
        /* the highest number that came; monotonic ms when an event came last */
        int64_t newest, newest_ms;
    } types[GAP_TYPES_MAX];
    int type_count;
    gap_t open[GAPS_MAX]; /* also gaps that were reported lately: their events may still arrive */
    int count;
    int64_t overflowed; /* events in gaps beyond GAPS_MAX */
} gaps_t;

/* Note that an event came. False: it was fetched from the log before. */
bool gaps_seen(gaps_t *self, const char *type, int64_t number, int64_t now_ms);

/* Note that the event service has numbered events of this type up to head. first: earlier numbers
 * do not count as missed, because the subscriber has just begun. */
void gaps_head(gaps_t *self, const char *type, int64_t head, bool first, int64_t now_ms);

/* The gap that is to be reported next; NULL: none is due. Mark it with gaps_told, or change
 * due_ms. */
gap_t *gaps_due(gaps_t *self, int64_t now_ms);
void gaps_told(gap_t *gap, bool fetched);
