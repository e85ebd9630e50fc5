/* This worker's spool: a file of event batches that found no room in its ring (spool.h). What
 * another worker left is copied into it, too, under the name and the numbers that it has. */
#pragma once

#include "services/edge/events/edge_ring.h"
#include "services/edge/events/ring.h"

/* The file of a worker of a seat, with a NUL; size: NGX_MAX_PATH. */
void edge_spool_path(ngx_uint_t seat, ngx_uint_t worker, char *out, size_t size);

/* Open this worker's file, where it is not open: once at the start, when there is one, and with the
 * first batch. NGX_OK | NGX_ERROR: logged once, until a batch was appended. */
ngx_int_t edge_spool_open(void);

/* Append a batch whose events that worker numbered under that name (boot). NGX_OK | NGX_ERROR: no
 * room, or the file cannot be written; nothing of it is in the file. */
ngx_int_t edge_spool_append(const ring_batch_t *batch, ngx_uint_t worker, uint64_t boot);

/* Bytes of the file, and how many more it may have: none while it cannot be written. */
uint64_t edge_spool_taken(void);
uint64_t edge_spool_room(void);

/* Copy from another worker's file, from *at on, a megabyte at most; *at: how far it got. NGX_OK: to
 * the last whole batch | NGX_AGAIN: more another time, or when there is room. */
ngx_int_t edge_spool_adopt(ngx_fd_t file, ngx_uint_t worker, off_t *at);

/* Does it hold batches that are not acknowledged? They are older than those in the ring. */
ngx_uint_t edge_spool_is_used(void);

/* The next batch that was not sent. 1 | 0: none. */
ngx_uint_t edge_spool_next(edge_batch_t *batch);

/* Send again from the first batch that is not acknowledged. */
void edge_spool_resend(void);

/* That producer's batch that ends with seq is stored, and so are those before it. An answer to a
 * batch that was sent from the ring, before it was spooled, names none of those sent from here. */
void edge_spool_acknowledge(const char *producer, uint64_t seq);

/* In the helper: the bytes of a batch that edge_spool_next found; out has room for place->len.
 * NGX_OK | NGX_DECLINED: they are not there any more. */
ngx_int_t edge_spool_copy(const edge_place_t *place, void *out);
