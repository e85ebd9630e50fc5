#include "services/edge/events/ring.h"

#include "common/base/invariant.h"

#include <errno.h>
#include <string.h>

/* A writer may be killed between any two of its stores: they are made in the order that
 * ring_mend reads them in. */
#ifndef RING_ORDERED
#define RING_ORDERED() __atomic_signal_fence(__ATOMIC_SEQ_CST)
#endif

enum { ALIGNMENT = 8 };

#define OFFSET_MAX (1ull << 62) /* bytes that nobody writes in a lifetime */
/* Half of what postern-events reads: those that follow a number that was believed are read as
 * well. */
#define NUMBER_MAX ((uint64_t)EVENT_NUMBER_MAX / 2)
/* numbers without an event in one ring: more are no count of ours */
#define LOST_MAX (1ull << 32)

const char ring_file_magic[32] = EVENT_MEMORY_MAGIC;

static size_t align_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static ring_record_t *record_at(const ring_t *self, uint64_t offset)
{
    return (ring_record_t *)(self->memory->data + offset % self->size);
}

/* From there to where the ring begins again. */
static size_t left_at(const ring_t *self, uint64_t offset)
{
    return self->size - offset % self->size;
}

static size_t record_bytes(const ring_record_t *record)
{
    return align_up(sizeof(*record) + record->len);
}

static size_t batch_bytes(const ring_t *self)
{
    size_t part = self->size / RING_PARTS;

    return part < RING_BATCH_BYTES ? part : RING_BATCH_BYTES;
}

/* ---- the memory ---- */

int ring_attach(ring_t *self, void *memory, size_t bytes)
{
    self->memory = memory;
    if ((uintptr_t)memory % ALIGNMENT || bytes <= sizeof(*self->memory))
        return -EBADMSG;
    self->size = self->memory->size;
    return self->size >= RING_PARTS * sizeof(ring_record_t)
                   && self->size <= bytes - sizeof(*self->memory)
               ? 0
               : -EBADMSG;
}

void ring_clear(ring_t *self, uint64_t boot)
{
    *self->memory = (ring_memory_t){.boot = boot, .open = RING_NONE, .size = self->size};
}

bool ring_is_empty(const ring_t *self)
{
    return self->memory->head == self->memory->tail && self->memory->dropped == 0;
}

void ring_free_to(ring_t *self, uint64_t offset)
{
    INVARIANT(offset >= self->memory->tail && offset <= self->memory->head);
    __atomic_store_n(&self->memory->tail, offset, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* ---- reading ---- */

/* Where the record at or behind offset begins; false: at the head, or beyond it. */
static bool find_record(const ring_t *self, uint64_t *offset, uint64_t head)
{
    size_t left = left_at(self, *offset);
    uint32_t len = 0;

    if (*offset >= head)
        return false;
    if (left >= sizeof(ring_record_t))
        memcpy(&len, self->memory->data + *offset % self->size, sizeof(len));
    if (left < sizeof(ring_record_t) || len == RING_WRAP)
        *offset += left;
    return *offset < head;
}

/* Is it, as it lies there, a batch with room for what it says? */
static bool is_batch(const ring_t *self, const ring_batch_t *batch, uint64_t head)
{
    const ring_record_t *is = &batch->is;

    return is->len <= RING_BATCH_BYTES && is->len <= left_at(self, batch->at) - sizeof(*is)
           && batch->next <= head && is->count <= RING_BATCH_EVENTS && is->seq < NUMBER_MAX
           && is->dropped <= is->seq && is->sealed <= 1 && !is->count == !is->len
           && (!is->sealed || (is->count && is->seq - is->dropped >= is->count));
}

/* Sealed or open. 1 | 0: the head | -EBADMSG */
static int read_any(const ring_t *self, uint64_t offset, ring_batch_t *ret_batch)
{
    uint64_t head = self->memory->head;

    if (head > OFFSET_MAX || (head > offset && head - offset > self->size))
        return -EBADMSG;
    if (!find_record(self, &offset, head))
        return 0;
    if (offset % self->size % ALIGNMENT || left_at(self, offset) < sizeof(ring_record_t))
        return -EBADMSG;
    ret_batch->at = offset;
    ret_batch->events = offset + sizeof(ring_record_t);
    ret_batch->data = self->memory->data + ret_batch->events % self->size;
    memcpy(&ret_batch->is, record_at(self, offset), sizeof(ret_batch->is));
    ret_batch->next = offset + record_bytes(&ret_batch->is);
    return is_batch(self, ret_batch, head) ? 1 : -EBADMSG;
}

int ring_read(const ring_t *self, uint64_t offset, ring_batch_t *ret_batch)
{
    int r = read_any(self, offset, ret_batch);

    return r > 0 && !ret_batch->is.sealed ? 0 : r;
}

/* ---- mending ---- */

/* What was open when its writer ended becomes what it would have been when sealed. Its record
 * names the event before its first, or, when the writer was about to seal it, its last: that is
 * then the last of all. False: these are no numbers. */
static bool settle_batch(const ring_memory_t *memory, ring_batch_t *batch)
{
    ring_record_t *is = &batch->is;

    if (is->sealed)
        return true;
    if (is->seq > memory->seq)
        return false;
    if (!is->count) { /* what it was to tell is told by another one: see count_dropped */
        is->seq -= is->dropped;
        is->dropped = 0;
        batch->next = batch->at;
        return true;
    }
    if (is->seq != memory->seq - memory->dropped)
        is->seq += is->count;
    is->sealed = 1;
    return is->seq <= memory->seq && is->seq - is->dropped >= is->count;
}

/* Every number behind the last batch belongs to an event that is not there. False: these are no
 * numbers. */
static bool count_dropped(ring_memory_t *memory, uint64_t last)
{
    bool counts = memory->seq >= last && memory->seq - last <= LOST_MAX;

    if (!counts)
        memory->seq = last;
    memory->dropped = memory->seq - last;
    return counts;
}

/* Without a batch it is what the memory says. */
static bool check_dropped(ring_memory_t *memory)
{
    bool counts = memory->dropped <= memory->seq && memory->dropped <= LOST_MAX;

    if (!counts)
        memory->dropped = 0;
    return counts;
}

/* Nothing in it can be read, or its numbers are none: those to come are named anew, so that none
 * is taken for one that was. */
static bool is_lost(const ring_memory_t *memory, size_t size)
{
    return memory->tail > OFFSET_MAX || memory->head < memory->tail
           || memory->head - memory->tail > size || memory->tail % size % ALIGNMENT
           || memory->seq >= NUMBER_MAX;
}

bool ring_mend(ring_t *self, uint64_t boot)
{
    ring_memory_t *memory = self->memory;
    uint64_t offset = memory->tail, last = 0;
    bool any = false, ended = false, counts;
    ring_batch_t batch;
    int r = 1;

    if (is_lost(memory, self->size)) {
        ring_clear(self, boot);
        return true;
    }
    while (!ended && (r = read_any(self, offset, &batch)) > 0) {
        ended = !batch.is.sealed || batch.at == memory->open;
        if (!settle_batch(memory, &batch)
            || (any && batch.is.seq - batch.is.dropped - batch.is.count != last)) {
            r = -EBADMSG;
            break;
        }
        memcpy(record_at(self, batch.at), &batch.is, sizeof(batch.is));
        offset = batch.next;
        last = batch.is.seq;
        any = true;
    }
    memory->head = offset;
    memory->open = RING_NONE;
    counts = any ? count_dropped(memory, last) : check_dropped(memory);
    return r < 0 || !counts;
}

/* ---- writing ---- */

static size_t room_of_batch(const ring_t *self)
{
    return align_up(sizeof(ring_record_t) + batch_bytes(self));
}

/* Room for a whole batch in one piece. False: not before something is freed. */
static bool open_batch(ring_t *self)
{
    ring_memory_t *memory = self->memory;
    uint64_t offset = memory->head;
    size_t bytes = room_of_batch(self), left = left_at(self, offset);
    ring_record_t *record;

    if (left < bytes)
        offset += left;
    if (offset + bytes - memory->tail > self->size)
        return false;
    if (left < bytes && left >= sizeof(*record))
        record_at(self, memory->head)->len = RING_WRAP;
    INVARIANT(left_at(self, offset) >= bytes);
    record = record_at(self, offset);
    *record = (ring_record_t){.seq = memory->seq, .dropped = memory->dropped};
    RING_ORDERED();
    memory->open = offset;
    RING_ORDERED();
    memory->head = offset + bytes;
    RING_ORDERED();
    memory->dropped = 0;
    return true;
}

bool ring_is_open(const ring_t *self)
{
    uint64_t open = self->memory->open;

    return open != RING_NONE && record_at(self, open)->count > 0;
}

void ring_seal(ring_t *self)
{
    ring_memory_t *memory = self->memory;
    ring_record_t *record;

    if (!ring_is_open(self))
        return;
    record = record_at(self, memory->open);
    INVARIANT(!record->sealed && record->count <= RING_BATCH_EVENTS
              && record_bytes(record) <= left_at(self, memory->open));
    record->seq += record->count;
    RING_ORDERED();
    record->sealed = 1;
    RING_ORDERED();
    memory->head = memory->open + record_bytes(record);
    RING_ORDERED();
    memory->open = RING_NONE;
}

unsigned char *ring_reserve(ring_t *self, size_t *ret_room, bool *ret_first)
{
    ring_memory_t *memory = self->memory;
    ring_record_t *record;

    *ret_room = 0;
    if (memory->open != RING_NONE && record_at(self, memory->open)->count >= RING_BATCH_EVENTS)
        ring_seal(self);
    if (memory->open == RING_NONE && !open_batch(self))
        return NULL;
    record = record_at(self, memory->open);
    INVARIANT(record->len <= batch_bytes(self)
              && room_of_batch(self) <= left_at(self, memory->open));
    *ret_room = batch_bytes(self) - record->len;
    *ret_first = record->len == 0;
    return (unsigned char *)(record + 1) + record->len;
}

unsigned char *ring_commit(ring_t *self, size_t len)
{
    ring_memory_t *memory = self->memory;
    ring_record_t *record, next;

    INVARIANT(memory->open != RING_NONE);
    record = record_at(self, memory->open);
    INVARIANT(record->count < RING_BATCH_EVENTS && record->len <= batch_bytes(self)
              && len <= batch_bytes(self) - record->len);
    next = (ring_record_t){.len = record->len + (uint32_t)len, .count = record->count + 1};
    RING_ORDERED();
    memory->seq++;
    RING_ORDERED();
    __atomic_store_n(&record->held, next.held, __ATOMIC_RELAXED);
    return (unsigned char *)(record + 1) + next.len;
}

void ring_drop(ring_t *self, uint64_t count)
{
    ring_memory_t *memory = self->memory;

    ring_seal(self);
    INVARIANT(memory->seq + count >= memory->seq);
    if (memory->open == RING_NONE) {
        memory->seq += count;
        RING_ORDERED();
        memory->dropped += count;
        return;
    }
    /* one without an event: it would tell what was dropped when it was opened */
    memory->dropped = record_at(self, memory->open)->dropped + count;
    RING_ORDERED();
    memory->seq += count;
    RING_ORDERED();
    memory->head = memory->open;
    RING_ORDERED();
    memory->open = RING_NONE;
}

/* ---- a batch on disk ---- */

uint32_t ring_spooled_count(const ring_spooled_t *head)
{
    return head->count & ((1u << RING_COUNT_BITS) - 1);
}

unsigned ring_spooled_worker(const ring_spooled_t *head, unsigned own)
{
    unsigned other = head->count >> RING_COUNT_BITS;

    return other ? other - 1 : own;
}

void ring_spooled_set_worker(ring_spooled_t *head, unsigned worker)
{
    INVARIANT(worker < RING_WORKERS_MAX);
    head->count = ring_spooled_count(head) | (worker + 1) << RING_COUNT_BITS;
}

bool ring_spooled_is_batch(const ring_spooled_t *head)
{
    uint32_t count = ring_spooled_count(head);

    return head->seq > 0 && head->seq <= EVENT_NUMBER_MAX && count > 0
           && ring_spooled_worker(head, 0) < RING_WORKERS_MAX && count <= EVENT_BATCH_MAX
           && head->dropped <= head->seq && head->len > 0 && head->len <= RING_SPOOL_BYTES;
}

/* ---- the file ---- */

bool ring_file_is_whole(const event_memory_head_t *head, size_t total)
{
    return total >= EVENT_MEMORY_HEAD && !memcmp(head->magic, ring_file_magic, sizeof(head->magic))
           && head->slot_bytes >= RING_FILE_PAGE && head->slot_bytes % RING_FILE_PAGE == 0
           && head->slots <= (total - EVENT_MEMORY_HEAD) / head->slot_bytes;
}
