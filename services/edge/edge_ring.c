/* Events of a worker until they are acknowledged: a ring in shared memory, which outlives the worker,
 * then a spool file, then they are dropped and counted.
 *
 * A slot of the zone belongs to the worker of that number, whoever that is after a crash. A record is
 * a batch: header, then a layout and its events (proto/WIRE.md). The open batch is the last record; an
 * event's bytes are written before the header that counts them. */
#include "edge.h"
#include "edge_seat.h"

enum {
    BATCH_EVENTS = 1024,
    BATCH_BYTES = 512 * 1024,  /* and no more than a part of the ring */
    RING_PARTS = 8,
    WORKERS_MAX = 64,
    SPOOL_READ = 1 << 20,
    ADOPT_BYTES = 1 << 20,     /* of another's spool in one turn */
    PREFETCH_BYTES = 4096
};

typedef struct {
    uint32_t  len;      /* of the payload; WRAP: go on at the start */
    uint32_t  count;
    uint64_t  seq;      /* of the last event */
    uint64_t  dropped;  /* before this batch */
    uint64_t  sealed;
} record_t;

#define WRAP  0xffffffffu

typedef struct {
    edge_counters_t  counters;
    uint64_t         boot;       /* names the sequence */
    uint64_t         seq;        /* last event */
    uint64_t         dropped;    /* not yet told */
    uint64_t         head, tail; /* bytes ever written and freed; modulo size */
    uint64_t         open;       /* offset of the open batch; NONE */
    size_t           size;
    u_char           data[];
} slot_t;

#define NONE  ((uint64_t) -1)

typedef struct {
    uint64_t  boot;
    uint64_t  seq;
    uint64_t  dropped;
    uint32_t  len, count;
} spooled_t;

static slot_t     *slot;
static uint64_t    sent;            /* offset up to which batches were sent */
static ngx_fd_t    spool = NGX_INVALID_FILE;
static off_t       spool_end, spool_sent, spool_acked;
static size_t      batch_bytes;     /* payload of a batch, at most */
static ngx_uint_t  saying;          /* the spool's trouble was logged */


/* Requests that were in flight when the worker of this slot ended leave no event. They get numbers like events that could not be
 * kept, and are told in the same way. */
static uint64_t
count_lost(slot_t *one, ngx_log_t *log)
{
    uint64_t  lost = one->counters.in_flight;

    if (lost) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "postern: %uL requests were in flight when their worker "
                      "ended: they leave no event", lost);
    }
    one->counters.in_flight = 0;
    one->counters.lost += lost;
    one->seq += lost;
    one->dropped += lost;
    return lost;
}


/* What a killed edge left is sent by the next under its name; counters begin again. */
ngx_int_t
edge_ring_make(ngx_cycle_t *cycle)
{
    slot_t           *one;
    uint64_t          lost;
    ngx_uint_t        i;
    edge_conf_t      *conf = edge_worker.conf;
    static ngx_uint_t  made;
    ngx_core_conf_t  *core;

    if (made) {
        return NGX_OK;   /* a reload */
    }
    core = (ngx_core_conf_t *) ngx_get_conf(cycle->conf_ctx, ngx_core_module);
    if (core->worker_processes > WORKERS_MAX) {
        ngx_log_error(NGX_LOG_EMERG, cycle->log, 0,
                      "postern: more than %d worker processes", WORKERS_MAX);
        return NGX_ERROR;
    }
    if (edge_memory_open(sizeof(slot_t) + conf->ring_size,
                         core->worker_processes, cycle->log)
        != NGX_OK)
    {
        return NGX_ERROR;
    }
    made = 1;
    for (i = 0; (one = edge_memory_slot(i)) != NULL; i++) {
        lost = one->size == conf->ring_size ? count_lost(one, cycle->log) : 0;
        ngx_memzero(&one->counters, sizeof(one->counters));
        one->counters.lost = lost;
        if (one->size != conf->ring_size) {
            ngx_memzero(one, sizeof(*one));
            one->size = conf->ring_size;
            one->boot = (uint64_t) ngx_time() << 32 | (uint32_t) ngx_random();
            one->open = NONE;
        }
    }
    return NGX_OK;
}


/* Nothing is left in it when all of it was acknowledged or spooled, and what was lost was told. */
void
edge_ring_end(void)
{
    slot_t      *one;
    ngx_uint_t   i;

    for (i = 0; (one = edge_memory_slot(i)) != NULL; i++) {
        if (one->head != one->tail || one->dropped) {
            return;
        }
    }
    edge_memory_remove();
}


edge_counters_t *
edge_ring_counters(ngx_uint_t worker)
{
    slot_t  *one = edge_memory_slot(worker);

    return one ? &one->counters : NULL;
}


static record_t *
record_at(uint64_t offset)
{
    return (record_t *) (slot->data + offset % slot->size);
}


static size_t
record_bytes(const record_t *record)
{
    return ngx_align(sizeof(record_t) + record->len, 8);
}


/* The record at offset, past a wrap mark; NULL at the head. */
static record_t *
read_record(uint64_t *offset)
{
    record_t  *record;

    if (*offset == slot->head) {
        return NULL;
    }
    record = record_at(*offset);
    if (slot->size - *offset % slot->size < sizeof(record_t)
        || record->len == WRAP)
    {
        *offset += slot->size - *offset % slot->size;
        if (*offset == slot->head) {
            return NULL;
        }
        record = record_at(*offset);
    }
    return record;
}


/* Before the room is written to again: the helper looks whether what it copied was still there. */
static void
free_to(uint64_t offset)
{
    __atomic_store_n(&slot->tail, offset, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}


/* ---- spool ---- */

void
edge_ring_spool_path(ngx_uint_t seat, char *out, size_t size)
{
    ngx_snprintf((u_char *) out, size, "%V/events.%ui%s.spool%Z",
                 &edge_worker.conf->state_dir, ngx_worker,
                 edge_seat_suffix(seat));
}


static ngx_int_t
spool_open(void)
{
    char  path[NGX_MAX_PATH];

    if (spool != NGX_INVALID_FILE) {
        return NGX_OK;
    }
    edge_ring_spool_path(edge_seat(), path, sizeof(path));
    spool = open(path, O_RDWR|O_CREAT|O_CLOEXEC, 0600);
    if (spool == NGX_INVALID_FILE) {
        if (!saying) {
            saying = 1;
            ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                          "postern: cannot open the event spool \"%s\": events "
                          "beyond the ring will be dropped", path);
        }
        return NGX_ERROR;
    }
    spool_end = lseek(spool, 0, SEEK_END);
    return NGX_OK;
}


static ngx_int_t
spool_append(const record_t *record)
{
    spooled_t     head;
    struct iovec  iov[2];
    ssize_t       want;

    if (spool_open() != NGX_OK
        || spool_end + (off_t) (sizeof(head) + record->len)
           > edge_worker.conf->spool_size)
    {
        return NGX_ERROR;
    }
    ngx_memzero(&head, sizeof(head));
    head.boot = slot->boot;
    head.seq = record->seq;
    head.dropped = record->dropped;
    head.len = record->len;
    head.count = record->count;
    iov[0].iov_base = &head;
    iov[0].iov_len = sizeof(head);
    iov[1].iov_base = (void *) (record + 1);
    iov[1].iov_len = record->len;
    want = sizeof(head) + record->len;
    if (pwritev(spool, iov, 2, spool_end) != want) {
        return NGX_ERROR;
    }
    spool_end += want;
    return NGX_OK;
}


/* Everything sealed in the ring goes to the spool, oldest first. */
static ngx_int_t
spill(void)
{
    record_t  *record;
    uint64_t   offset = slot->tail;

    while ((record = read_record(&offset)) != NULL && record->sealed) {
        if (spool_append(record) != NGX_OK) {
            return NGX_ERROR;
        }
        slot->counters.spooled += record->count;
        offset += record_bytes(record);
        free_to(offset);
        if (sent < offset) {
            sent = offset;
        }
    }
    return NGX_OK;
}


static void
name_producer(char *out, size_t size, uint64_t boot)
{
    ngx_snprintf((u_char *) out, size, "%V/%ui/%xL%Z", &edge_worker.conf->name,
                 ngx_worker, boot);
}


/* Zeros at the end are what a power cut leaves of a write. */
static ngx_uint_t
spool_read(spooled_t *head, off_t at)
{
    return pread(spool, head, sizeof(*head), at) == (ssize_t) sizeof(*head)
           && head->seq > 0 && head->count > 0 && head->len > 0
           && head->len <= SPOOL_READ;
}


/* Empty when everything in it is acknowledged; cut where it is torn. */
static void
spool_trim(void)
{
    if (spool_acked >= spool_end) {
        spool_end = spool_sent = spool_acked = 0;
    }
    if (ftruncate(spool, spool_end) != 0) {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: cannot shorten the event spool to %O bytes",
                      spool_end);
    }
}


static ngx_uint_t
spool_next(edge_batch_t *batch)
{
    spooled_t  head;

    if (spool == NGX_INVALID_FILE || spool_sent >= spool_end) {
        return 0;
    }
    if (!spool_read(&head, spool_sent)
        || spool_sent + (off_t) (sizeof(head) + head.len) > spool_end)
    {
        ngx_log_error(NGX_LOG_ERR, ngx_cycle->log, ngx_errno,
                      "postern: the event spool is torn at byte %O of %O: the "
                      "rest of it is lost", spool_sent, spool_end);
        spool_end = spool_sent;
        spool_trim();
        return 0;
    }
    batch->oldest = spool_sent == spool_acked;
    batch->place.at = spool_sent + sizeof(head);
    batch->place.len = head.len;
    batch->place.spooled = 1;
    spool_sent += sizeof(head) + head.len;
    batch->seq = head.seq;
    batch->count = head.count;
    batch->dropped = head.dropped;
    name_producer(batch->producer, sizeof(batch->producer), head.boot);
    return 1;
}


/* ---- ring ---- */

static ngx_uint_t
fits(size_t bytes)
{
    size_t  at = slot->head % slot->size, used = slot->head - slot->tail;

    if (at + bytes > slot->size) {
        bytes += slot->size - at;   /* skip to the start */
    }
    return used + bytes <= slot->size;
}


static void
open_batch(void)
{
    size_t     at = slot->head % slot->size;
    record_t  *record;

    /* room for a whole batch in one piece */
    if (at + sizeof(record_t) + batch_bytes > slot->size) {
        if (slot->size - at >= sizeof(record_t)) {
            record_at(slot->head)->len = WRAP;
        }
        slot->head += slot->size - at;
    }
    record = record_at(slot->head);
    ngx_memzero(record, sizeof(*record));
    record->dropped = slot->dropped;
    record->seq = slot->seq;
    slot->dropped = 0;
    slot->open = slot->head;
    slot->head += ngx_align(sizeof(record_t) + batch_bytes, 8);
}


void
edge_ring_seal(void)
{
    record_t  *record;

    if (slot->open == NONE) {
        return;
    }
    record = record_at(slot->open);
    if (record->count == 0) {
        return;
    }
    record->sealed = 1;
    slot->head = slot->open + record_bytes(record);
    slot->open = NONE;
}


u_char *
edge_ring_reserve(size_t *room, ngx_uint_t *first)
{
    record_t  *record;
    size_t     batch = ngx_align(sizeof(record_t) + batch_bytes, 8);

    *room = 0;
    if (slot->open != NONE && record_at(slot->open)->count >= BATCH_EVENTS) {
        edge_ring_seal();
    }
    if (slot->open == NONE) {
        if (!fits(batch)) {
            spill();
        }
        if (!fits(batch)) {
            return NULL;
        }
        open_batch();
    }
    record = record_at(slot->open);
    *room = batch_bytes - record->len;
    *first = record->len == 0;
    return (u_char *) (record + 1) + record->len;
}


void
edge_ring_commit(size_t len)
{
    size_t     i;
    u_char    *next;
    record_t  *record = record_at(slot->open);

    ngx_memory_barrier();
    slot->counters.events++;
    slot->seq++;
    record->seq = slot->seq;
    record->count++;
    record->len += len;
    /* the next event is about as long: its lines come while that request is served */
    next = (u_char *) (record + 1) + record->len;
    for (i = 0; i < len && i < PREFETCH_BYTES; i += 64) {
        __builtin_prefetch(next + i, 1);
    }
}


void
edge_ring_begin(edge_ctx_t *ctx)
{
    slot->counters.requests++;
    if (edge_worker.events_wanted) {
        slot->counters.in_flight++;
        ctx->counted = 1;
    }
}


void
edge_ring_finish(edge_ctx_t *ctx)
{
    if (ctx->counted && slot->counters.in_flight) {
        slot->counters.in_flight--;
    }
    ctx->counted = 0;
}


void
edge_ring_drop(void)
{
    slot->counters.events++;
    slot->seq++;
    slot->dropped++;
    slot->counters.dropped++;
}


/* Oldest first: the spool, and the ring only when the spool is empty. */
ngx_uint_t
edge_ring_next(edge_batch_t *batch)
{
    record_t  *record;
    uint64_t   tail = slot->tail;

    if (spool != NGX_INVALID_FILE && spool_acked < spool_end) {
        return spool_next(batch);
    }
    record = read_record(&sent);
    if (record == NULL || !record->sealed) {
        return 0;
    }
    read_record(&tail);   /* past a wrap mark, as sent is */
    batch->oldest = tail == sent;
    batch->place.at = sent + sizeof(record_t);
    batch->place.len = record->len;
    batch->place.spooled = 0;
    batch->shared.body = edge_memory_position(record + 1);
    batch->shared.tail = edge_memory_position(&slot->tail);
    sent += record_bytes(record);
    batch->seq = record->seq;
    batch->count = record->count;
    batch->dropped = record->dropped;
    name_producer(batch->producer, sizeof(batch->producer), slot->boot);
    return 1;
}


/* Up to the batch that was named, which was sent from here; an answer to one that was sent from the
 * ring before it was spooled names none of them. */
static void
spool_acknowledge(const char *producer, uint64_t seq)
{
    char       name[sizeof(((edge_batch_t *) 0)->producer)];
    off_t      at;
    spooled_t  head;

    for (at = spool_acked; at < spool_sent && spool_read(&head, at); /* void */) {
        at += sizeof(head) + head.len;
        name_producer(name, sizeof(name), head.boot);
        if (head.seq == seq && ngx_strcmp(name, producer) == 0) {
            spool_acked = at;
            break;
        }
    }
    if (spool_acked >= spool_end) {
        spool_trim();
    }
}


void
edge_ring_acknowledge(const char *producer, uint64_t seq)
{
    char       name[sizeof(((edge_batch_t *) 0)->producer)];
    record_t  *record;
    uint64_t   offset;

    if (spool != NGX_INVALID_FILE && spool_acked < spool_end) {
        spool_acknowledge(producer, seq);
        return;
    }
    name_producer(name, sizeof(name), slot->boot);
    if (ngx_strcmp(name, producer) != 0) {
        return;
    }
    offset = slot->tail;
    while (offset < sent && (record = read_record(&offset)) != NULL
           && record->sealed && record->seq <= seq)
    {
        offset += record_bytes(record);
        free_to(offset);
    }
    slot->counters.unacknowledged = slot->head - slot->tail;
}


void
edge_ring_resend(void)
{
    sent = slot->tail;
    spool_sent = spool_acked;
}


ngx_uint_t
edge_ring_unsent(void)
{
    return slot->open != NONE && record_at(slot->open)->count > 0;
}


ngx_int_t
edge_ring_copy(const edge_place_t *place, void *out)
{
    char              path[NGX_MAX_PATH];
    size_t            at = place->at % slot->size;
    static ngx_fd_t   file = NGX_INVALID_FILE;   /* the helper's own */

    if (place->spooled) {
        if (file == NGX_INVALID_FILE) {
            edge_ring_spool_path(edge_seat(), path, sizeof(path));
            file = open(path, O_RDONLY|O_CLOEXEC);
        }
        return pread(file, out, place->len, place->at) == (ssize_t) place->len
               ? NGX_OK : NGX_DECLINED;
    }
    if (at + place->len > slot->size) {
        return NGX_DECLINED;
    }
    ngx_memcpy(out, slot->data + at, place->len);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    return __atomic_load_n(&slot->tail, __ATOMIC_RELAXED) <= place->at
           ? NGX_OK : NGX_DECLINED;
}


/* That a dead worker left. */
static void
close_open_batch(void)
{
    edge_ring_seal();
    if (slot->open != NONE) {     /* it had nothing in it but what it was to tell */
        slot->dropped += record_at(slot->open)->dropped;
        slot->head = slot->open;
        slot->open = NONE;
    }
}


ngx_int_t
edge_ring_open(ngx_cycle_t *cycle)
{
    char         path[NGX_MAX_PATH];
    struct stat  st;

    slot = edge_memory_slot(ngx_worker);
    batch_bytes = ngx_min((size_t) BATCH_BYTES,
                          edge_worker.conf->ring_size / RING_PARTS);
    slot->counters.ready = 0;
    close_open_batch();
    count_lost(slot, cycle->log);
    sent = slot->tail;
    edge_ring_spool_path(edge_seat(), path, sizeof(path));
    if (stat(path, &st) == 0 && st.st_size > 0) {
        spool_open();
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
    count_lost(slot, ngx_cycle->log);
    if (ngx_terminate || ngx_quit || ngx_exiting) {
        /* the zone goes with the last process: what is not acknowledged goes to disk */
        spill();
    }
}


/* ---- what another master left: its batches keep the names and numbers that they have ---- */

static ngx_uint_t
is_slot(const slot_t *other, size_t bytes)
{
    return bytes > sizeof(slot_t) && other->size > 0
           && other->size <= bytes - sizeof(slot_t)
           && other->head >= other->tail
           && other->head - other->tail <= other->size;
}


ngx_uint_t
edge_ring_slot_is_empty(const void *at, size_t bytes)
{
    const slot_t  *other = at;

    return !is_slot(other, bytes)
           || (other->head == other->tail && other->dropped == 0
               && other->counters.in_flight == 0);
}


/* What it had not told yet: its name will not be heard again, so it is told under this one. */
static void
take_losses(slot_t *other)
{
    uint64_t  lost = count_lost(other, ngx_cycle->log);

    edge_ring_seal();   /* the numbers go on behind its events */
    if (slot->open != NONE) {
        record_at(slot->open)->dropped += other->dropped;
    } else {
        slot->dropped += other->dropped;
    }
    slot->seq += other->dropped;
    slot->counters.lost += lost;
    slot->counters.dropped += other->dropped - lost;
    other->dropped = 0;
}


ngx_int_t
edge_ring_adopt_slot(void *at, size_t bytes)
{
    slot_t     *other = at, *own = slot;
    uint64_t    own_sent = sent;
    ngx_int_t   rc;

    if (edge_ring_slot_is_empty(at, bytes)) {
        return NGX_OK;
    }
    slot = other;
    close_open_batch();
    rc = spill();
    slot = own;
    sent = own_sent;
    if (rc != NGX_OK) {
        return NGX_AGAIN;
    }
    other->tail = other->head;   /* nothing but a wrap mark is left */
    take_losses(other);
    return NGX_OK;
}


ngx_int_t
edge_ring_adopt_spool(ngx_fd_t file, off_t *at)
{
    off_t       end = *at + ADOPT_BYTES;
    ssize_t     want;
    u_char     *buffer;
    ngx_int_t   rc = NGX_AGAIN;
    spooled_t   head;

    buffer = malloc(sizeof(head) + SPOOL_READ);
    while (buffer && rc == NGX_AGAIN && *at < end) {
        ngx_memzero(&head, sizeof(head));
        want = pread(file, &head, sizeof(head), *at) == (ssize_t) sizeof(head)
               && head.len <= SPOOL_READ && head.count > 0
               ? (ssize_t) (sizeof(head) + head.len) : 0;
        if (want == 0 || pread(file, buffer, want, *at) != want) {
            rc = NGX_OK;   /* the end, or torn from here on, as in spool_next */
        } else if (spool_open() != NGX_OK
                   || spool_end + want > edge_worker.conf->spool_size
                   || pwrite(spool, buffer, want, spool_end) != want)
        {
            break;   /* when there is room again */
        } else {
            spool_end += want;
            *at += want;
        }
    }
    free(buffer);
    return rc;
}
