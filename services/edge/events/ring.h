/* A worker's event batches in shared memory, from when an event ended until its batch is
 * acknowledged. The memory outlives the worker, so whoever reads it may find what a worker left
 * that was killed within a store, or that was broken: nothing in it is believed before it was
 * checked. No nginx, no files and no clock in here. */
#pragma once

#include "common/schema/event_memory.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    RING_BATCH_EVENTS = 1024,
    RING_BATCH_BYTES = 512 * 1024, /* of a batch's events, at most */
    RING_PARTS = 8,                /* and no more than a part of the ring */
    RING_SPOOL_BYTES = 1 << 20,    /* of a batch's events on disk, at most */
    RING_FILE_PAGE = 4096
};

/* As it lies in memory: another layout needs another ring_file_magic. */
typedef struct ring_memory {
    uint64_t boot;       /* names the sequence of numbers */
    uint64_t seq;        /* number of the last event */
    uint64_t dropped;    /* up to it, behind the last batch: not yet told */
    uint64_t head, tail; /* bytes ever written and freed; modulo size */
    uint64_t open;       /* offset of the open batch; RING_NONE */
    size_t size;
    unsigned char data[];
} ring_memory_t;

#define RING_NONE ((uint64_t)-1)

/* In front of the events of a batch. */
typedef struct ring_record {
    union {
        struct {
            uint32_t len; /* of the events; RING_WRAP: go on at the start */
            uint32_t count;
        };
        uint64_t held; /* both, so that an event is there or is not */
    };
    uint64_t seq;     /* of the last event; while it is open, of the last one before it */
    uint64_t dropped; /* before this batch */
    uint64_t sealed;
} ring_record_t;

#define RING_WRAP 0xffffffffu

typedef struct ring {
    ring_memory_t *memory;
    size_t size; /* read once, and checked */
} ring_t;

typedef struct ring_batch {
    uint64_t at;      /* offset of its record */
    uint64_t next;    /* and of what follows */
    uint64_t events;  /* offset of its first event */
    ring_record_t is; /* a copy: what was checked is what is used */
    const unsigned char *data;
} ring_batch_t;

/* ---- the memory ---- */

/* Use these bytes of memory, whoever wrote them. 0 | -EBADMSG: no ring. */
int ring_attach(ring_t *self, void *memory, size_t bytes);

/* Make it empty, with a name of its own. */
void ring_clear(ring_t *self, uint64_t boot);

/* Its writer is gone: end the batch that was open, and cut off what cannot be what a writer
 * leaves. Afterwards the writer's functions may be used. boot: the new name, should not even the
 * numbers make sense. True: something was cut off. What was lost is in `dropped`, as far as it
 * can be counted. */
bool ring_mend(ring_t *self, uint64_t boot);

/* ---- writing: after ring_clear or ring_mend ---- */

/* Where the next event's bytes go, how many may, and whether it is the first of its batch; NULL:
 * free something first. */
unsigned char *ring_reserve(ring_t *self, size_t *ret_room, bool *ret_first);

/* What was reserved holds an event of len bytes. Where the next one's would go. */
unsigned char *ring_commit(ring_t *self, size_t len);

/* So many events that cannot be kept: they have numbers, and are told with the next batch. */
void ring_drop(ring_t *self, uint64_t count);

/* Close the open batch when it has events. */
void ring_seal(ring_t *self);

/* Does the open batch have events? */
bool ring_is_open(const ring_t *self);

/* ---- reading ---- */

/* The batch at offset, or behind a wrap mark there. 1 | 0: none is sealed there yet | -EBADMSG:
 * what lies there is none. It always lies in the ring, whatever the memory says. */
int ring_read(const ring_t *self, uint64_t offset, ring_batch_t *ret_batch);

/* Before the room is written to again: who copied a batch looks whether it was still there. */
void ring_free_to(ring_t *self, uint64_t offset);

/* Nothing is in it that has to be told? */
bool ring_is_empty(const ring_t *self);

/* ---- a batch on disk ---- */

typedef struct ring_spooled {
    uint64_t boot;
    uint64_t seq;
    uint64_t dropped;
    uint32_t len;
    uint32_t count; /* of events; above RING_COUNT_BITS whose they are, see ring_spooled_worker */
} ring_spooled_t;

enum { RING_COUNT_BITS = 16, RING_WORKERS_MAX = 64 };

/* Of events, without what else the field holds. */
uint32_t ring_spooled_count(const ring_spooled_t *head);

/* The number of the worker that made them is a part of their producer's name. A spool says it of
 * those that another worker than its own has made. */
unsigned ring_spooled_worker(const ring_spooled_t *head, unsigned own);
void ring_spooled_set_worker(ring_spooled_t *head, unsigned worker);

/* Zeros are what a power cut leaves of a write; one that is taken over from another spool and
 * then not read hides all behind it. */
bool ring_spooled_is_batch(const ring_spooled_t *head);

/* ---- the file with the slots of all workers ---- */

extern const char ring_file_magic[32];

/* Do this head and this many bytes belong together? */
bool ring_file_is_whole(const event_memory_head_t *head, size_t total);
