/* Events of a worker until they are acknowledged: a ring in shared memory, which outlives the
 * worker (ring.h), then a spool file, then they are dropped and counted.
 *
 * A slot of the zone belongs to the worker of that number, whoever that is after a crash. A
 * record is a batch: header, then a layout and its events (proto/WIRE.md). */
#include "services/edge/events/edge_ring.h"
#include "services/edge/events/edge_memory.h"
#include "services/edge/worker/edge_conf.h"
#include "services/edge/worker/edge_file.h"
#include "services/edge/worker/edge_seat.h"
#include "services/edge/events/ring.h"
#include "services/edge/events/spool.h"

enum {
    ADOPT_BYTES = 1 << 20,     /* of another's spool in one turn */
    PREFETCH_BYTES = 4096,
    IN_FLIGHT_MAX = 1 << 24    /* requests of one worker: more are no count of ours */
};

typedef struct {
    edge_counters_t  counters;
    ring_memory_t    memory;
} slot_t;

static ngx_uint_t  workers;
static slot_t     *slot;
static ngx_uint_t  wanted;             /* somebody wants events */
static void      (*sender)(void);      /* of what is to be sent; NULL: nobody yet */
static ring_t      ring;            /* of slot */
static uint64_t    sent;            /* offset up to which batches were sent */
static spool_t     spool = { NGX_INVALID_FILE, 0, 0, 0, 0 };
static ngx_uint_t  saying;          /* the spool's trouble was logged, and lasts */


static uint64_t
new_boot(void)
{
    return (uint64_t) ngx_time() << 32 | (uint32_t) ngx_random();
}


/* Whoever wrote to it may have been killed, or broken. NGX_ERROR: it is no ring. */
static ngx_int_t
open_slot(slot_t *one, size_t bytes, ring_t *out, ngx_log_t *log)
{
    size_t  counters = offsetof(slot_t, memory);

    if (bytes <= counters || ring_attach(out, &one->memory, bytes - counters) != 0) {
        return NGX_ERROR;
    }
    if (ring_mend(out, new_boot())) {
        ngx_log_error(NGX_LOG_ALERT, log, 0,
                      "postern: event memory holds what no worker writes: events "
                      "behind that are lost");
    }
    return NGX_OK;
}


static void
make_slot(slot_t *one, size_t size)
{
    ring_t  of = { &one->memory, size };

    ngx_memzero(one, sizeof(*one));
    ring_clear(&of, new_boot());
}


/* Requests that were in flight when the worker of this slot ended leave no event. They get
 * numbers like events that could not be kept, and are told in the same way. */
static uint64_t
count_lost(slot_t *one, ring_t *of, ngx_log_t *log)
{
    uint64_t  lost = one->counters.in_flight;

    one->counters.in_flight = 0;
    if (lost == 0 || lost > IN_FLIGHT_MAX) {
        return 0;
    }
    ngx_log_error(NGX_LOG_WARN, log, 0,
                  "postern: %uL requests were in flight when their worker "
                  "ended: they leave no event", lost);
    one->counters.lost += lost;
    ring_drop(of, lost);
    return lost;
}


/* What a killed edge left is sent by the next under its name; counters begin again. */
ngx_int_t
edge_ring_make(ngx_cycle_t *cycle)
{
    slot_t           *one;
    ring_t            of;
    uint64_t          lost;
    ngx_uint_t        i;
    edge_conf_t      *conf = edge_conf();
    ngx_core_conf_t  *core;

    core = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    if (core->worker_processes > RING_WORKERS_MAX) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "postern: more than %d worker processes",
                      RING_WORKERS_MAX);
        return NGX_ERROR;
    }
    workers = core->worker_processes;
    if (edge_memory_open(sizeof(slot_t) + conf->ring_size,
                         workers, cycle->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }
    /* those of workers that are no more are for those that are: edge_adopt.c */
    for (i = 0; i < workers && (one = edge_memory_slot(i)) != NULL; i++) {
        lost = 0;
        if (one->memory.size == conf->ring_size
            && open_slot(one, edge_memory_slot_bytes(), &of, cycle->log) == NGX_OK)
        {
            lost = count_lost(one, &of, cycle->log);
        } else {
            make_slot(one, conf->ring_size);
        }
        ngx_memzero(&one->counters, sizeof(one->counters));
        one->counters.lost = lost;
    }
    for (i = workers; (one = edge_memory_slot(i)) != NULL; i++) {
        if (!edge_ring_slot_is_empty(one, edge_memory_slot_bytes())) {
            return NGX_OK;
        }
    }
    if (i > workers) {
        edge_memory_shrink();
    }
    return NGX_OK;
}


/* Nothing is left in it when all of it was acknowledged or spooled, and what was lost was told. */
void
edge_ring_end(void)
{
    ring_t       of;
    slot_t      *one;
    ngx_uint_t   i;

    for (i = 0; (one = edge_memory_slot(i)) != NULL; i++) {
        if (open_slot(one, edge_memory_slot_bytes(), &of, ngx_cycle->log) != NGX_OK
            || !ring_is_empty(&of))
        {
            return;
        }
    }
    edge_memory_remove();
}


ngx_uint_t
edge_ring_workers(void)
{
    return workers;
}


edge_counters_t *
edge_ring_counters(ngx_uint_t worker)
{
    slot_t  *one = worker < workers ? edge_memory_slot(worker) : NULL;

    return one ? &one->counters : NULL;
}


/* 1: the batch at offset | 0: none. What lies there and is none is cut off. */
static ngx_uint_t
read_batch(ring_t *of, uint64_t offset, ring_batch_t *batch)
{
    int  r = ring_read(of, offset, batch);

    if (r < 0) {
        ngx_log_error(NGX_LOG_ALERT, ngx_cycle->log, 0,
                      "postern: event memory holds what no worker writes: events "
                      "behind that are lost");
        (void) ring_mend(of, new_boot());
        if (of == &ring) {
            sent = ngx_min(sent, ring.memory->head);
        }
    }
    return r > 0;
}


/* ---- spool ---- */

void
edge_ring_spool_path(ngx_uint_t seat, ngx_uint_t worker, char *out, size_t size)
{
    ngx_snprintf((u_char *) out, size, "%V/events.%ui%s.spool%Z",
                 &edge_conf()->state_dir, worker,
                 edge_seat_suffix(seat));
}


static void
say_spool(ngx_err_t err, const char *what)
{
    if (!saying) {
        saying = 1;
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, err,
                      "postern: cannot %s the event spool: events beyond the "
                      "ring will be dropped", what);
    }
}


static ngx_int_t
open_spool(void)
{
    int       r;
    char      path[NGX_MAX_PATH];
    off_t     cut;
    ngx_fd_t  file;

    if (spool.file != NGX_INVALID_FILE) {
        return NGX_OK;
    }
    edge_ring_spool_path(edge_seat(), ngx_worker, path, sizeof(path));
    file = edge_file_open(path, 0);
    if (file == NGX_INVALID_FILE) {
        say_spool(ngx_errno, "open");
        return NGX_ERROR;
    }
    r = spool_attach(&spool, file, ngx_worker, &cut);
    if (r) {
        say_spool(-r, "go on with");
        close(file);
        return NGX_ERROR;
    }
    if (cut) {
        ngx_log_error(NGX_LOG_WARN, ngx_cycle->log, 0,
                      "postern: the event spool ended in %O bytes that are no "
                      "whole batch: they are cut off, behind %O bytes that are",
                      cut, spool.end);
    }
    return NGX_OK;
}


static void
trim_spool(void)
{
    int  r = spool_trim(&spool);

    if (r) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, -r,
                      "postern: cannot shorten the event spool to %O bytes",
                      spool.end);
    }
}


/* r: of an attempt to append to it. What is too much for it is counted where it is dropped. */
static ngx_int_t
spooled(int r)
{
    if (r == 0) {
        saying = 0;
        return NGX_OK;
    }
    if (r != -EFBIG) {
        say_spool(-r, "write to");
    }
    return NGX_ERROR;
}


static ngx_int_t
spool_batch(const ring_batch_t *batch, ngx_uint_t worker, uint64_t boot)
{
    ring_spooled_t  head;

    if (open_spool() != NGX_OK) {
        return NGX_ERROR;
    }
    ngx_memzero(&head, sizeof(head));
    head.boot = boot;
    head.seq = batch->is.seq;
    head.dropped = batch->is.dropped;
    head.len = batch->is.len;
    head.count = batch->is.count;
    return spooled(spool_append(&spool, &head, worker, batch->data,
                                edge_conf()->spool_size));
}


/* Everything sealed in the ring of a worker goes to the spool, oldest first. */
static ngx_int_t
spill(slot_t *from, ring_t *of, ngx_uint_t worker)
{
    uint64_t      end = of->memory->head;
    ring_batch_t  batch;

    while (of->memory->tail < end
           && read_batch(of, of->memory->tail, &batch))
    {
        if (spool_batch(&batch, worker, of->memory->boot) != NGX_OK) {
            return NGX_ERROR;
        }
        from->counters.spooled += batch.is.count;
        ring_free_to(of, batch.next);
    }
    return NGX_OK;
}


/* The worker's own. */
static ngx_int_t
spill_own(void)
{
    ngx_int_t  rc = spill(slot, &ring, ngx_worker);

    sent = ngx_max(sent, ring.memory->tail);
    return rc;
}


static void
name_producer(char *out, size_t size, ngx_uint_t worker, uint64_t boot)
{
    ngx_snprintf((u_char *) out, size, "%V/%ui/%xL%Z", &edge_conf()->name,
                 worker, boot);
}


static ngx_uint_t
next_spooled(edge_batch_t *batch)
{
    ring_spooled_t  head;

    if (spool.sent >= spool.end) {
        return 0;
    }
    if (spool_read(&spool, spool.sent, &head) <= 0) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: the event spool is torn at byte %O of %O: the "
                      "rest of it is lost", spool.sent, spool.end);
        spool.end = spool.sent;
        trim_spool();
        return 0;
    }
    batch->oldest = spool.sent == spool.acked;
    batch->place.at = spool.sent + sizeof(head);
    batch->place.len = head.len;
    batch->place.spooled = 1;
    spool.sent = spool_behind(spool.sent, &head);
    batch->seq = head.seq;
    batch->count = ring_spooled_count(&head);
    batch->dropped = head.dropped;
    name_producer(batch->producer, sizeof(batch->producer),
                  spool_worker(&spool, &head), head.boot);
    return 1;
}


/* ---- ring ---- */

void
edge_ring_seal(void)
{
    ring_seal(&ring);
}


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
    return at;
}


void
edge_ring_commit(size_t len)
{
    size_t   i;
    u_char  *next;

    slot->counters.events++;
    next = ring_commit(&ring, len);
    /* the next event is about as long: its lines come while that request is served */
    for (i = 0; i < len && i < PREFETCH_BYTES; i += 64) {
        __builtin_prefetch(next + i, 1);
    }
}


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


void
edge_ring_drop(void)
{
    slot->counters.events++;
    slot->counters.dropped++;
    ring_drop(&ring, 1);
}


/* Is there something older than what the ring has? */
static ngx_uint_t
is_spooling(void)
{
    return spool.acked < spool.end;
}


/* Oldest first: the spool, and the ring only when the spool is empty. */
ngx_uint_t
edge_ring_next(edge_batch_t *batch)
{
    ring_batch_t  next, oldest;

    if (is_spooling()) {
        return next_spooled(batch);
    }
    if (!read_batch(&ring, sent, &next)) {
        return 0;
    }
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
    name_producer(batch->producer, sizeof(batch->producer), ngx_worker,
                  ring.memory->boot);
    return 1;
}


/* Up to the batch that was named, which was sent from here; an answer to one that was sent from the
 * ring before it was spooled names none of them. */
static void
acknowledge_spooled(const char *producer, uint64_t seq)
{
    char            name[sizeof(((edge_batch_t *) 0)->producer)];
    off_t           at;
    ring_spooled_t  head;

    for (at = spool.acked; at < spool.sent && spool_read(&spool, at, &head) > 0; /* void */) {
        at = spool_behind(at, &head);
        name_producer(name, sizeof(name), spool_worker(&spool, &head),
                      head.boot);
        if (head.seq == seq && ngx_strcmp(name, producer) == 0) {
            spool.acked = at;
            break;
        }
    }
    if (!is_spooling()) {
        trim_spool();
    }
}


void
edge_ring_acknowledge(const char *producer, uint64_t seq)
{
    char          name[sizeof(((edge_batch_t *) 0)->producer)];
    ring_batch_t  batch;

    if (is_spooling()) {
        acknowledge_spooled(producer, seq);
        return;
    }
    name_producer(name, sizeof(name), ngx_worker, ring.memory->boot);
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
    spool.sent = spool.acked;
}


ngx_uint_t
edge_ring_unsent(void)
{
    return ring_is_open(&ring);
}


ngx_int_t
edge_ring_copy(const edge_place_t *place, void *out)
{
    char              path[NGX_MAX_PATH];
    size_t            at = place->at % ring.size;
    static ngx_fd_t   file = NGX_INVALID_FILE;   /* the helper's own */

    if (place->spooled) {
        if (file == NGX_INVALID_FILE) {
            edge_ring_spool_path(edge_seat(), ngx_worker, path, sizeof(path));
            file = open(path, O_RDONLY|O_CLOEXEC);
        }
        return pread(file, out, place->len, place->at) == (ssize_t) place->len
               ? NGX_OK : NGX_DECLINED;
    }
    if (at + place->len > ring.size) {
        return NGX_DECLINED;
    }
    ngx_memcpy(out, ring.memory->data + at, place->len);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&ring.memory->tail, __ATOMIC_RELAXED) <= place->at
           ? NGX_OK : NGX_DECLINED;
}


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
    if (open_slot(slot, edge_memory_slot_bytes(), &ring, cycle->log) != NGX_OK) {
        ngx_log_error(NGX_LOG_ALERT, cycle->log, 0,
                      "postern: the event memory of this worker is none: what "
                      "was in it is lost");
        make_slot(slot, edge_memory_slot_bytes() - sizeof(slot_t));
        if (open_slot(slot, edge_memory_slot_bytes(), &ring, cycle->log) != NGX_OK) {
            return NGX_ERROR;
        }
    }
    slot->counters.ready = 0;
    (void) count_lost(slot, &ring, cycle->log);
    sent = ring.memory->tail;
    edge_ring_spool_path(edge_seat(), ngx_worker, path, sizeof(path));
    if (stat(path, &st) == 0 && st.st_size > 0) {
        (void) open_spool();
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
    (void) count_lost(slot, &ring, ngx_cycle->log);
    if (ngx_terminate || ngx_quit || ngx_exiting) {
        /* the zone goes with the last process: what is not acknowledged goes to disk */
        (void) spill_own();
    }
}


/* ---- what another master left: its batches keep the names and numbers that they have ---- */

ngx_uint_t
edge_ring_slot_is_empty(const void *at, size_t bytes)
{
    ring_t         of;
    const slot_t  *other = at;

    return bytes <= sizeof(slot_t)
           || ring_attach(&of, (void *) &other->memory,
                          bytes - offsetof(slot_t, memory)) != 0
           || (ring_is_empty(&of) && other->counters.in_flight == 0);
}


/* What it had not told yet: its name will not be heard again, so it is told under this one. */
static void
take_losses(slot_t *other, ring_t *of)
{
    uint64_t  lost = count_lost(other, of, ngx_cycle->log);

    ring_drop(&ring, of->memory->dropped);
    slot->counters.lost += lost;
    slot->counters.dropped += of->memory->dropped - lost;
    of->memory->dropped = 0;
}


/* Whoever has the slot next begins another sequence: what was taken from this one is not yet
 * sent. */
ngx_int_t
edge_ring_adopt_slot(void *at, size_t bytes, ngx_uint_t worker)
{
    slot_t  *other = at;
    ring_t   of;

    if (edge_ring_slot_is_empty(at, bytes)
        || open_slot(other, bytes, &of, ngx_cycle->log) != NGX_OK)
    {
        return NGX_OK;
    }
    if (spill(other, &of, worker) != NGX_OK) {
        return NGX_AGAIN;
    }
    take_losses(other, &of);
    ring_clear(&of, new_boot());
    return NGX_OK;
}


ngx_int_t
edge_ring_adopt_spool(ngx_fd_t file, ngx_uint_t worker, off_t *at)
{
    int    r = 1;
    off_t  end = *at + ADOPT_BYTES;

    while (r > 0 && *at < end) {
        if (open_spool() != NGX_OK) {
            return NGX_AGAIN;
        }
        r = spool_copy(&spool, file, worker, at, edge_conf()->spool_size);
        if (r < 0) {
            (void) spooled(r);
            return NGX_AGAIN;   /* when there is room again */
        }
    }
    return r > 0 ? NGX_AGAIN : NGX_OK;   /* the end, or torn from here on */
}
