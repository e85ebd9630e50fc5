/* Events in shared memory, then in a spool file, until acknowledged. */
#pragma once

#include <ngx_config.h>
#include <ngx_core.h>

typedef struct {
    uint64_t at;  /* in the ring, or in the spool file */
    uint32_t len; /* 0: whoever reads the header finds the batch */
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
    uint32_t count;
    uint64_t dropped;
    ngx_uint_t oldest;  /* none before it waits for an answer */
    char producer[128]; /* name/worker/boot; proto/WIRE.md */
} edge_batch_t;

ngx_int_t edge_ring_make(ngx_cycle_t *cycle); /* in the master, before it forks */
void edge_ring_end(void);                     /* and when it ends */
ngx_int_t edge_ring_open(ngx_cycle_t *cycle); /* NGX_BUSY: another process has it */
void edge_ring_close(void);
/* Does anybody want events? Nobody before a worker serves, and when it has ended. */
void edge_ring_want(ngx_uint_t wanted);
ngx_uint_t edge_ring_is_wanted(void);
/* There is something to send: tell who sends it, the handler that was set. */
void edge_ring_send(void);
void edge_ring_set_sender(void (*handler)(void));
/* A request begins; 1: it is in flight, and is to be finished, with or without an event. Those
 * that are in flight are lost with the worker, and counted by the next. */
ngx_uint_t edge_ring_begin(void);
void edge_ring_finish(void);
/* Where the next event's bytes go, how many may, and whether it is the first of its batch; NULL:
 * ring and spool are full. */
u_char *edge_ring_reserve(size_t *room, ngx_uint_t *first);
/* What was reserved holds an event of len bytes. */
void edge_ring_commit(size_t len);
/* An event that cannot be kept: counted, and told with the next batch. */
void edge_ring_drop(void);
/* Close the open batch when it has events. */
void edge_ring_seal(void);
/* Next batch not sent yet; 0 when none. */
ngx_uint_t edge_ring_next(edge_batch_t *batch);
/* In the helper: a batch's bytes. NGX_DECLINED: they were freed meanwhile. */
ngx_int_t edge_ring_copy(const edge_place_t *place, void *out);
/* The batch of that producer that ends with seq is stored: free it, and in the ring all before
 * it. */
void edge_ring_acknowledge(const char *producer, uint64_t seq);
void edge_ring_resend(void);
ngx_uint_t edge_ring_unsent(void);
typedef struct {
    uint64_t requests, events, dropped, spooled, unacknowledged, revision, ready;
    uint64_t upstreams_denied;
    uint64_t streams_ended;  /* by changes of the configuration */
    uint64_t in_flight;      /* requests that will leave an event */
    uint64_t lost;           /* and those whose worker ended before they did */
    uint64_t config_turn_us; /* the longest that configuration kept a worker from requests */
} edge_counters_t;
edge_counters_t *edge_ring_counters(ngx_uint_t worker); /* NULL: no such slot */
ngx_uint_t edge_ring_workers(void); /* of this edge: their slots are the first */
/* What workers of that number left goes to the spool. NGX_OK: all of it | NGX_AGAIN: more
 * another time, or when there is room. */
void edge_ring_spool_path(ngx_uint_t seat, ngx_uint_t worker, char *out, size_t size);
ngx_int_t edge_ring_adopt_slot(void *at, size_t bytes, ngx_uint_t worker);
ngx_uint_t edge_ring_slot_is_empty(const void *at, size_t bytes);
ngx_int_t edge_ring_adopt_spool(ngx_fd_t file, ngx_uint_t worker, off_t *at);
