/* The head of a file in which an edge leaves its events for postern-events on the same machine
 * (proto/WIRE.md). */
#pragma once

#include <stdint.h>

/* Another layout is not read. */
#define EVENT_MEMORY_MAGIC "postern event rings 2"

enum { EVENT_MEMORY_HEAD = 4096 }; /* bytes before the first ring */

/* What the head of a batch may say, at both ends: an edge that believed more than postern-events
 * reads would send such a batch for ever, and nothing behind it. The number of an event, and
 * each sum of them, is one that JSON and double can say exactly. */
#define EVENT_NUMBER_MAX (INT64_C(1) << 53)
enum { EVENT_BATCH_MAX = 4096 /* events of one */ };

typedef struct event_memory_head {
    char magic[32];
    uint64_t slot_bytes, slots;
    char name[80]; /* of the edge whose events these are: its producers are name/worker/boot */
} event_memory_head_t;
