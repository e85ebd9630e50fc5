/* The head of a file in which an edge leaves its events for postern-events on the same machine
 * (proto/WIRE.md). */
#pragma once

#include <stdint.h>

/* Marks the layout: change the number with it. A file with another one is not read. */
#define EVENT_MEMORY_MAGIC "postern event rings 2"

enum { EVENT_MEMORY_HEAD = 4096 }; /* bytes before the first ring */

/* Limits of a batch, for edge and postern-events alike: a batch beyond the reader's limit would be
 * sent again for ever, and block those behind it. Numbers of events, and their sums, must be exact
 * in JSON, that is as a double. */
#define EVENT_NUMBER_MAX (INT64_C(1) << 53)
enum { EVENT_BATCH_MAX = 4096 /* events of one */ };

typedef struct event_memory_head {
    char magic[32];
    uint64_t slot_bytes, slots;
    char name[80]; /* of the edge: its producers are called name/worker/boot */
} event_memory_head_t;
