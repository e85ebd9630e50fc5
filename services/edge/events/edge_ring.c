/* Events of this worker until they are acknowledged: a ring in shared memory, which outlives the
 * worker (ring.h), then a spool file (edge_spool.h), then they are dropped and counted. A record of
 * the ring is a batch: a head, then a layout and its events (proto/WIRE.md). */
#include "services/edge/events/edge_ring.h"
#include "common/base/invariant.h"
#include "services/edge/events/edge_memory.h"
#include "services/edge/events/edge_slot.h"
#include "services/edge/events/edge_spool.h"
#include "services/edge/events/portions.h"
#include "services/edge/events/ring.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/worker/edge_vitals.h"

enum { PREFETCH_BYTES = 4096 };

static edge_slot_t  *slot;
static ring_t        ring;          /* of slot */
static uint64_t      sent;          /* offset up to which batches were sent */
static portions_t    portions;      /* of ring and spool */
static uint64_t      over_share;    /* events dropped while a batch was open, not yet told */
static ngx_uint_t    wanted;        /* somebody wants events */
static void        (*sender)(void); /* of what is to be sent; NULL: nobody yet */


/* 1: the batch at offset | 0: there is none. Bytes there that are no batch are cut off. */
static ngx_uint_t
read_batch(ring_t *of, uint64_t offset, ring_batch_t *batch)
{
    int  r = ring_read(of, offset, batch);

    if (r < 0) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "postern: event memory holds what no worker writes: events "
                      "behind that are lost");
        (void) ring_mend(of, edge_slot_new_boot());
        if (of == &ring) {
            sent = ngx_min(sent, ring.memory->head);
        }
    }
    return r > 0;
}


/* Everything sealed in the ring of a worker goes to the spool, oldest first. */
static ngx_int_t
spill_ring(edge_slot_t *from, ring_t *of, ngx_uint_t worker)
{
    uint64_t      end = of->memory->head;
    ring_batch_t  batch;

    while (of->memory->tail < end
           && read_batch(of, of->memory->tail, &batch))
    {
        if (edge_spool_append(&batch, worker, of->memory->boot) != NGX_OK) {
            return NGX_ERROR;
        }
        from->counters.spooled += batch.is.count;
        ring_free_to(of, batch.next);
    }
    return NGX_OK;
}


/* This worker's ring, when it is full or the worker ends. */
static ngx_int_t
spill_own(void)
{
    ngx_int_t  rc = spill_ring(slot, &ring, ngx_worker);

    sent = ngx_max(sent, ring.memory->tail);
    INVARIANT(sent <= ring.memory->head);
    return rc;
}


/* ---- writing ---- */

u_char *
edge_ring_reserve(size_t *room, ngx_uint_t *first)
{
    bool     is_first = 0;
    u_char  *at;

    at = ring_reserve(&ring, room, &is_first);
    if (at == NULL) {
        (void) spill_own();
        at = ring_reserve(&ring, room, &is_first);
    }
    *first = is_first;
    INVARIANT(at == NULL || (at >= ring.memory->data && *room <= ring.size));
    return at;
}


void
edge_ring_commit(size_t len, uint32_t account)
{
    size_t   i;
    u_char  *next;

    slot->counters.events++;
    portions_add(&portions, account, len);
    next = ring_commit(&ring, len);
    /* the next event is about as long: its lines come while that request is served */
    for (i = 0; i < len && i < PREFETCH_BYTES; i += 64) {
        __builtin_prefetch(next + i, 1);
    }
}


void
edge_ring_seal(void)
{
    ring_seal(&ring);
    if (over_share) {
        ring_drop(&ring, over_share);
        over_share = 0;
    }
}


ngx_uint_t
edge_ring_has_share(uint32_t account)
{
    uint64_t  held = ring.memory->head - ring.memory->tail;
    uint64_t  all = ring.size + edge_spool_taken() + edge_spool_room();

    return portions_may(&portions, account, held + edge_spool_taken(), all);
}


/* A number of its own would end the open batch: other accounts' events would be in many small
 * ones, each with a layout of its own, and take the room that is short. */
void
edge_ring_drop_over_share(void)
{
    slot->counters.events++;
    slot->counters.dropped++;
    edge_vitals(ngx_worker)->events_over_share++;
    over_share++;
    if (!ring_is_open(&ring)) {
        edge_ring_seal();
    }
}


void
edge_ring_drop(void)
{
    slot->counters.events++;
    slot->counters.dropped++;
    ring_drop(&ring, 1);
}


ngx_uint_t
edge_ring_unsent(void)
{
    return ring_is_open(&ring);
}


/* ---- requests ---- */

void
edge_ring_want(ngx_uint_t want)
{
    wanted = want;
}


ngx_uint_t
edge_ring_is_wanted(void)
{
    return wanted;
}


void
edge_ring_set_sender(void (*handler)(void))
{
    sender = handler;
}


void
edge_ring_send(void)
{
    if (sender) {
        sender();
    }
}


ngx_uint_t
edge_ring_begin(void)
{
    slot->counters.requests++;
    if (wanted) {
        slot->counters.in_flight++;
    }
    return wanted;
}


void
edge_ring_finish(void)
{
    if (slot->counters.in_flight) {
        slot->counters.in_flight--;
    }
}


/* ---- sending ---- */

/* Oldest first: the spool, and the ring only when the spool is empty. */
ngx_uint_t
edge_ring_next(edge_batch_t *batch)
{
    ring_batch_t  next, oldest;

    if (edge_spool_is_used()) {
        return edge_spool_next(batch);
    }
    if (!read_batch(&ring, sent, &next)) {
        return 0;
    }
    /* the helper, and whoever reads the memory's file, is told this place */
    INVARIANT(next.data >= ring.memory->data
              && next.is.len <= ring.size - (size_t) (next.data - ring.memory->data));
    batch->oldest = read_batch(&ring, ring.memory->tail, &oldest)
                    && oldest.at == next.at;
    batch->place.at = next.events;
    batch->place.len = next.is.len;
    batch->place.spooled = 0;
    batch->shared.body = edge_memory_position(next.data);
    batch->shared.tail = edge_memory_position(&ring.memory->tail);
    sent = next.next;
    batch->seq = next.is.seq;
    batch->count = next.is.count;
    batch->dropped = next.is.dropped;
    edge_slot_name_producer(batch->producer, sizeof(batch->producer), ngx_worker,
                            ring.memory->boot);
    return 1;
}


void
edge_ring_acknowledge(const char *producer, uint64_t seq)
{
    char          name[sizeof(((edge_batch_t *) 0)->producer)];
    ring_batch_t  batch;

    if (edge_spool_is_used()) {
        edge_spool_acknowledge(producer, seq);
        return;
    }
    edge_slot_name_producer(name, sizeof(name), ngx_worker, ring.memory->boot);
    if (ngx_strcmp(name, producer) != 0) {
        return;
    }
    while (ring.memory->tail < sent
           && read_batch(&ring, ring.memory->tail, &batch) && batch.is.seq <= seq)
    {
        ring_free_to(&ring, batch.next);
    }
    slot->counters.unacknowledged = ring.memory->head - ring.memory->tail;
}


void
edge_ring_resend(void)
{
    sent = ring.memory->tail;
    edge_spool_resend();
}


ngx_int_t
edge_ring_copy(const edge_place_t *place, void *out)
{
    size_t  at = place->at % ring.size;

    if (place->spooled) {
        return edge_spool_copy(place, out);
    }
    if (at + place->len > ring.size) {
        return NGX_DECLINED;
    }
    ngx_memcpy(out, ring.memory->data + at, place->len);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&ring.memory->tail, __ATOMIC_RELAXED) <= place->at
           ? NGX_OK : NGX_DECLINED;
}


/* ---- start and end of the worker ---- */

ngx_int_t
edge_ring_open(ngx_cycle_t *cycle)
{
    char         path[NGX_MAX_PATH];
    struct stat  st;

    if (edge_memory_claim(ngx_worker) != NGX_OK) {
        if (ngx_errno != NGX_EAGAIN && ngx_errno != EACCES) {
            ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                          "postern: cannot lock the event memory of worker %ui", ngx_worker);
            return NGX_ERROR;
        }
        ngx_log_error(NGX_LOG_ALERT, cycle->log, ngx_errno,
                      "postern: another process has the event memory of worker "
                      "%ui: this one ends", ngx_worker);
        return NGX_BUSY;
    }
    slot = edge_memory_slot(ngx_worker);
    if (edge_slot_attach(slot, edge_memory_slot_bytes(), &ring, cycle->log) != NGX_OK) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "postern: the event memory of this worker is none: what "
                      "was in it is lost");
        edge_slot_clear(slot, edge_memory_slot_bytes() - sizeof(edge_slot_t));
        if (edge_slot_attach(slot, edge_memory_slot_bytes(), &ring, cycle->log) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    slot->counters.ready = 0;
    portions.segment_bytes = (ring.size + edge_conf()->spool_size) / PORTIONS_SEGMENTS;
    (void) edge_slot_count_lost(slot, &ring, cycle->log);
    sent = ring.memory->tail;
    edge_spool_path(edge_seat(), ngx_worker, path, sizeof(path));
    if (stat(path, &st) == 0 && st.st_size > 0) {
        (void) edge_spool_open();
    }
    return NGX_OK;
}


void
edge_ring_close(void)
{
    if (slot == NULL) {
        return;
    }
    edge_ring_seal();
    (void) edge_slot_count_lost(slot, &ring, ngx_cycle->log);
    if (ngx_terminate || ngx_quit || ngx_exiting) {
        /* the zone goes with the last process: what is not acknowledged goes to disk */
        (void) spill_own();
    }
}


/* ---- what another worker left: its batches keep the names and numbers that they have ---- */

/* Numbers of events that were lost and that the other worker had not told yet: it sends nothing any
 * more under its own name, so this worker tells them under its own. */
static void
take_losses(edge_slot_t *other, ring_t *of)
{
    uint64_t  lost = edge_slot_count_lost(other, of, ngx_cycle->log);

    ring_drop(&ring, of->memory->dropped);
    slot->counters.lost += lost;
    slot->counters.dropped += of->memory->dropped - lost;
    of->memory->dropped = 0;
}


/* Whoever has the slot next begins another sequence of numbers: batches that were taken from this
 * one are in the spool and not sent yet. */
ngx_int_t
edge_ring_adopt_slot(void *at, size_t bytes, ngx_uint_t worker)
{
    ring_t        of;
    edge_slot_t  *other = at;

    if (edge_slot_is_empty(at, bytes)
        || edge_slot_attach(other, bytes, &of, ngx_cycle->log) != NGX_OK)
    {
        return NGX_OK;
    }
    if (spill_ring(other, &of, worker) != NGX_OK) {
        return NGX_AGAIN;
    }
    take_losses(other, &of);
    ring_clear(&of, edge_slot_new_boot());
    return NGX_OK;
}
