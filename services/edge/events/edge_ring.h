/* Events of this worker in shared memory, then in a spool file, until postern-events has
 * acknowledged them. One worker process is the writer of a ring; its helper and, by the memory's
 * file, postern-events read it. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

/* Where the bytes of a batch lie. */
typedef struct {
    uint64_t at;  /* offset in the ring, or position in the spool file */
    uint32_t len; /* 0: whoever reads the header finds the batch by itself (edge_shared_t) */
    uint32_t spooled;
} edge_place_t;

/* A batch in the ring, for readers of edge_memory_name's file: it is there while the number at tail
 * is not beyond at. */
typedef struct {
    off_t body, tail; /* positions in the file */
} edge_shared_t;

typedef struct {
    edge_place_t place;
    edge_shared_t shared; /* of one that is not spooled */
    uint64_t seq;         /* of the last event */
    uint32_t count;       /* of events */
    uint64_t dropped;     /* numbers before its first event that belong to events that are lost */
    ngx_uint_t oldest;    /* none before it waits for an answer */
    char producer[128];   /* name/worker/boot; proto/WIRE.md */
} edge_batch_t;

/* ---- the memory of all workers (edge_slot.c) ---- */

/* In the master, before it forks: make the memory, or go on with what a killed edge left. NGX_OK |
 * NGX_ERROR: logged. */
ngx_int_t edge_ring_make(ngx_cycle_t *cycle);

/* In the master, when it ends: remove the memory's file when nothing in it has to be sent. */
void edge_ring_end(void);

/* How many workers this edge has: their slots are the first. */
ngx_uint_t edge_ring_workers(void);

/* What a worker has counted since the master began; in its slot, so that whoever answers for
 * metrics reads those of all workers. */
typedef struct {
    uint64_t requests, events, dropped, spooled;
    uint64_t unacknowledged;  /* bytes of the ring */
    uint64_t revision, ready; /* of the configuration; 1: it serves */
    uint64_t upstreams_denied;
    uint64_t streams_ended;  /* by changes of the configuration */
    uint64_t in_flight;      /* requests that will leave an event */
    uint64_t lost;           /* and those whose worker ended before they did */
    uint64_t config_turn_us; /* the longest that configuration kept a worker from requests */
} edge_counters_t;

/* Borrowed for good; NULL: this edge has no such worker. */
edge_counters_t *edge_ring_counters(ngx_uint_t worker);

/* ---- this worker's ring ---- */

/* At its start: use its slot and mend what the worker before left. NGX_OK | NGX_BUSY: another
 * process has it | NGX_ERROR; logged. */
ngx_int_t edge_ring_open(ngx_cycle_t *cycle);

/* At its end: what is not acknowledged goes to the spool, when the edge ends, too. */
void edge_ring_close(void);

/* Does anybody want events? Nobody before a worker serves, and when it has ended. */
void edge_ring_want(ngx_uint_t wanted);
ngx_uint_t edge_ring_is_wanted(void);

/* There is something to send: call the handler that was set, if any. */
void edge_ring_send(void);
void edge_ring_set_sender(void (*handler)(void));

/* A request begins; 1: it is in flight, and is to be finished, with or without an event. Those that
 * are in flight when the worker dies are counted by the next one. */
ngx_uint_t edge_ring_begin(void);
void edge_ring_finish(void);

/* Where the next event's bytes go, how many may (*room), and whether it is the first of its batch;
 * NULL: ring and spool are full. */
u_char *edge_ring_reserve(size_t *room, ngx_uint_t *first);

/* What was reserved last holds an event of len bytes; account is the hash of its account's id. */
void edge_ring_commit(size_t len, uint32_t account);

/* May an event of this account be kept (portions.h)? */
ngx_uint_t edge_ring_has_share(uint32_t account);
/* If not: it is dropped, and that is told behind the batch that is open. */
void edge_ring_drop_over_share(void);

/* An event that cannot be kept: it has a number, is counted, and told with the next batch. */
void edge_ring_drop(void);

/* Close the open batch when it has events, so that it can be sent. */
void edge_ring_seal(void);

/* Does the open batch have events? */
ngx_uint_t edge_ring_unsent(void);

/* The next batch that was not sent, the oldest first. 1 | 0: none. */
ngx_uint_t edge_ring_next(edge_batch_t *batch);

/* In the helper: a batch's bytes; out has room for place->len. NGX_OK | NGX_DECLINED: they were
 * freed meanwhile. */
ngx_int_t edge_ring_copy(const edge_place_t *place, void *out);

/* That producer's batch that ends with seq is stored, and so are those before it: free them. */
void edge_ring_acknowledge(const char *producer, uint64_t seq);

/* Send again from the oldest batch that is not acknowledged. */
void edge_ring_resend(void);

/* Take what a worker of that number left in this slot, which has no writer any more, into the
 * spool. NGX_OK: all of it | NGX_AGAIN: the rest when there is room. */
ngx_int_t edge_ring_adopt_slot(void *slot, size_t bytes, ngx_uint_t worker);
