/* A worker's slot of the event memory (edge_memory.h): its counters and its ring (ring.h). A slot
 * belongs to the worker of that number, whichever process that is after a crash, so it may hold
 * what a worker left that was killed within a write. */
#pragma once

#include "services/edge/events/edge_ring.h"
#include "services/edge/events/ring.h"

/* As it lies in the event memory; the ring goes on to the end of the slot. */
typedef struct {
    edge_counters_t  counters;
    ring_memory_t    memory;
} edge_slot_t;

/* Use the ring of a slot of that many bytes whose writer is gone: *ret_ring may be written to
 * afterwards. What no worker writes is cut off, and that is logged. NGX_OK | NGX_ERROR: there is no
 * ring in it. */
ngx_int_t edge_slot_attach(edge_slot_t *slot, size_t bytes, ring_t *ret_ring, ngx_log_t *log);

/* Make counters and ring anew; ring_bytes: of the ring, at the slot's end. */
void edge_slot_clear(edge_slot_t *slot, size_t ring_bytes);

/* Nothing in it has to be sent or told? Also when there is no ring in it. */
ngx_uint_t edge_slot_is_empty(const void *slot, size_t bytes);

/* Requests that were in flight when the worker of this slot ended leave no event: they get numbers
 * like events that could not be kept, and are told in the same way. How many there were. */
uint64_t edge_slot_count_lost(edge_slot_t *slot, ring_t *ring, ngx_log_t *log);

/* A new name for a sequence of event numbers (ring_clear). */
uint64_t edge_slot_new_boot(void);

/* name/worker/boot with a NUL: who numbered a batch's events (proto/WIRE.md). size: of an
 * edge_batch_t's producer. */
void edge_slot_name_producer(char *out, size_t size, ngx_uint_t worker, uint64_t boot);
