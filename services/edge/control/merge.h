/* A log as several copies of its service tell it, made one for a worker: each change
 * passes once, in order, from whichever copy says it first. All copies tell the same log, so a
 * revision means the same in each (proto/WIRE.md, "Several copies"). No sockets, no clock and no
 * nginx in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MERGE_COPIES_MAX = 16, MERGE_FRAMES_MAX = 8, MERGE_TEXT = 160 };

typedef struct merge_frame {
    const char *data;
    size_t len;
} merge_frame_t;

/* What the merge needs done. copy: 0 to count - 1; frames are valid during the call only. */
typedef struct merge_ports {
    bool (*is_there)(void *context, int copy); /* is it connected? */
    bool (*to_copy)(void *context, int copy, const merge_frame_t *frames,
                    size_t n); /* false: it did not go */
    void (*to_worker)(void *context, const merge_frame_t *frames, size_t n);
} merge_ports_t;

typedef struct merge_copy {
    int64_t
        /* of the worker's hello; what the copy said before it heard that one, or a later, does
         * not count */
        mark;
    bool heard; /* and it did */
    int64_t
        /* the revision in the last hello to it; 0: it is to send everything, -1: none was said */
        named;
    int64_t hello_ms;
    bool owed;   /* a hello, as soon as something is acknowledged: it said what did not pass */
    int lagging; /* beats in a row that were older than what passed */
} merge_copy_t;

typedef struct merge {
    const merge_ports_t *ports;
    void *context;
    merge_copy_t copies[MERGE_COPIES_MAX];
    int count;
    char name[MERGE_TEXT];   /* of the worker; "": it said no hello yet */
    char log_id[MERGE_TEXT]; /* of what passed */
    int64_t revision;        /* that the worker has when all that passed has reached it */
    char sure_log[MERGE_TEXT];
    int64_t sure;          /* and that it has for sure: it said hello with it, or acknowledged it */
    int64_t acked;         /* of sure_log; a hello acknowledges nothing */
    char mark[MERGE_TEXT]; /* of its last hello */
    int asked;             /* the copy that is to send everything; -1 */
    int source;            /* the copy whose snapshot passes; -1 */
    int last_asked;
} merge_t;

/* No copy was heard yet, and the worker said nothing. ports and context are borrowed. */
void merge_init(merge_t *self, int count, const merge_ports_t *ports, void *context);

/* A message of the worker to the config log, for all copies or for one. now_ms: of any clock that
 * never goes back. */
void merge_from_worker(merge_t *self, const merge_frame_t *frames, size_t n, int64_t now_ms);

/* A message of a copy, which passes to the worker or to nobody. */
void merge_from_copy(merge_t *self, int copy, const merge_frame_t *frames, size_t n,
                     int64_t now_ms);
