/* The ring of event batches. As a worker leaves it that is killed at any of its stores: each number
 * comes once, as its event or as one that was dropped, in order, and none is missing. And as bytes
 * that nobody wrote: nothing outside of them is touched, reading them ends, and once mended it is a
 * ring like any other. */
static void step(void);
#define RING_ORDERED() step()

#include "services/edge/events/ring.c"
#include "services/events/sequence.h"

#include <setjmp.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { STEPS_MAX = 4000, DROPS_MAX = 3, EVENT_MIN = sizeof(uint64_t) + sizeof(uint16_t) };

/* ---- a worker that is killed between two stores ---- */

static jmp_buf killed;
static int steps_left; /* 0: it lives on */

static void step(void)
{
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
    if (steps_left && --steps_left == 0)
        longjmp(killed, 1);
}

/* ---- bytes to decide by ---- */

typedef struct in {
    const uint8_t *at, *end;
} in_t;

static unsigned take(in_t *in)
{
    return in->at < in->end ? *in->at++ : 0;
}

/* ---- who gets the batches ---- */

typedef struct receiver {
    sequence_t sequence;
    uint64_t boot;
    uint64_t got, told; /* events, and numbers told as dropped */
} receiver_t;

static void check(bool holds)
{
    if (!holds)
        abort();
}

/* Events are their number and their length; all of them, and in order. */
static void check_events(const ring_batch_t *batch)
{
    uint64_t number = batch->is.seq - batch->is.count;
    size_t at = 0;

    for (uint32_t i = 0; i < batch->is.count; i++) {
        uint64_t is;
        uint16_t len;

        check(batch->is.len - at >= EVENT_MIN);
        memcpy(&is, batch->data + at, sizeof(is));
        memcpy(&len, batch->data + at + sizeof(is), sizeof(len));
        check(is == ++number && len >= EVENT_MIN);
        at += len;
    }
    check(at == batch->is.len);
}

/* exact: they are what a worker wrote. */
static void receive(receiver_t *to, const ring_t *ring, const ring_batch_t *batch, bool oldest,
                    bool exact)
{
    batch_t header = {.seq = (int64_t)batch->is.seq,
                      .count = batch->is.count,
                      .dropped = (int64_t)batch->is.dropped,
                      .oldest = oldest};
    int r;

    if (to->boot != ring->memory->boot)
        *to = (receiver_t){.boot = ring->memory->boot};
    r = sequence_take(&to->sequence, &header);
    if (!exact)
        return;
    check(r != SEQUENCE_EARLY);
    check_events(batch);
    if (r == SEQUENCE_NEW) {
        to->got += batch->is.count;
        to->told += batch->is.dropped;
    }
}

/* ---- what happens to a ring ---- */

typedef struct world {
    ring_t ring;
    receiver_t to;
    uint64_t sent;
    uint64_t uncounted; /* dropped by one that died in the act: counted only where a batch is left
                           to count from */
    bool exact;
} world_t;

static void write_event(world_t *self, in_t *in)
{
    size_t room = 0, len = EVENT_MIN + take(in) * (take(in) % 8u);
    uint64_t number = self->ring.memory->seq + 1;
    uint16_t bytes = (uint16_t)len;
    bool first = false;
    unsigned char *at = ring_reserve(&self->ring, &room, &first);

    if (at && room < len) {
        ring_seal(&self->ring);
        at = ring_reserve(&self->ring, &room, &first);
    }
    if (!at || room < len) {
        ring_drop(&self->ring, 1);
        return;
    }
    memset(at, 0xee, len);
    memcpy(at, &number, sizeof(number));
    memcpy(at + sizeof(number), &bytes, sizeof(bytes));
    ring_commit(&self->ring, len);
}

/* What was sent and not acknowledged goes again. */
static void send(world_t *self, unsigned batches, bool acknowledge)
{
    ring_batch_t batch, first;
    int r = 1;

    while (batches-- && (r = ring_read(&self->ring, self->sent, &batch)) > 0) {
        bool oldest =
            ring_read(&self->ring, self->ring.memory->tail, &first) > 0 && first.at == batch.at;

        receive(&self->to, &self->ring, &batch, oldest, self->exact);
        check(batch.next > self->sent);
        self->sent = batch.next;
        if (acknowledge)
            ring_free_to(&self->ring, batch.next);
    }
    check(r >= 0);
}

static void mend(world_t *self)
{
    bool cut = ring_mend(&self->ring, self->ring.memory->boot + 1);

    check(!cut || !self->exact);
    check(!ring_mend(&self->ring, 7)); /* nothing is left to mend */
    self->sent = self->ring.memory->tail;
}

static void work(world_t *volatile self, in_t *volatile in)
{
    for (volatile int i = 0; in->at < in->end && i < STEPS_MAX; i++) {
        volatile unsigned what = take(in);

        if (setjmp(killed)) {
            self->uncounted += (what & 7u) == 4 ? DROPS_MAX : 0;
            mend(self);
            continue;
        }
        steps_left = what & 0x80 ? 1 + (int)(take(in) % 12u) : 0;
        switch (what & 7u) {
        case 0:
        case 1:
        case 2:
            write_event(self, in);
            break;
        case 3:
            ring_seal(&self->ring);
            break;
        case 4:
            ring_drop(&self->ring, 1 + take(in) % DROPS_MAX);
            break;
        case 5:
            send(self, 1 + take(in) % 4u, what & 8u);
            break;
        case 6:
            self->sent = self->ring.memory->tail;
            break;
        default:
            mend(self);
        }
        steps_left = 0;
    }
}

/* Everything goes out: nothing is missing. */
static void finish(world_t *self)
{
    const ring_memory_t *memory = self->ring.memory;
    uint64_t told;

    steps_left = 0;
    mend(self);
    send(self, STEPS_MAX, true);
    ring_free_to(&self->ring, memory->head);
    if (!self->exact)
        return;
    told = self->to.got + self->to.told + memory->dropped;
    check(told <= memory->seq && memory->seq - told <= self->uncounted);
    check((uint64_t)self->to.sequence.lost <= self->uncounted);
}

static void try_worker(in_t *in)
{
    size_t size = 2048u + 512u * (take(in) % 32u) + take(in) % 16u;
    ring_memory_t *memory = malloc(sizeof(*memory) + size);
    world_t world = {.exact = true};

    check(memory != NULL);
    memset(memory, 0xa5, sizeof(*memory) + size);
    memory->size = size;
    check(!ring_attach(&world.ring, memory, sizeof(*memory) + size));
    ring_clear(&world.ring, 1);
    world.to.boot = 1;
    work(&world, in);
    finish(&world);
    free(memory);
}

/* Numbers of the head that are near what they could be, or the bytes themselves. */
static void spoil(ring_memory_t *memory, size_t size, in_t *in)
{
    uint64_t *words = (uint64_t *)memory;
    size_t n = (sizeof(*memory) + size) / sizeof(*words);

    for (size_t i = 0; i < n && in->at < in->end; i++) {
        unsigned how = take(in);

        if (how < 0x40) {
            i += how; /* as it is */
        } else if (how < 0x80) {
            words[i] += how - 0x60u;
        } else if (how < 0xa0) {
            words[i] = how - 0x80u;
        } else {
            for (size_t k = 0; k < sizeof(*words); k++)
                words[i] = words[i] << 8 | take(in);
        }
    }
}

/* What a worker wrote, then somebody else. */
static void try_bytes(in_t *in)
{
    size_t size = 1024u + 256u * (take(in) % 16u), middle = take(in), reads = 0;
    ring_memory_t *memory = malloc(sizeof(*memory) + size);
    world_t world = {0};
    in_t some = *in;
    ring_batch_t batch;
    uint64_t offset;

    check(memory != NULL);
    memset(memory, 0, sizeof(*memory) + size);
    memory->size = size;
    check(!ring_attach(&world.ring, memory, sizeof(*memory) + size));
    ring_clear(&world.ring, 1);
    if (some.at + middle < some.end)
        some.end = some.at + middle;
    world.exact = true;
    world.to.boot = 1;
    work(&world, &some);
    world.exact = false;
    in->at = some.end;
    spoil(memory, size, in);
    if (!ring_attach(&world.ring, memory, sizeof(*memory) + size)) {
        for (offset = memory->tail; ring_read(&world.ring, offset, &batch) > 0;
             offset = batch.next, reads++)
            check(reads <= size / sizeof(ring_record_t) && batch.next > offset
                  && batch.data >= memory->data
                  && batch.data + batch.is.len <= memory->data + world.ring.size);
        steps_left = 0;
        mend(&world);
        check(memory->dropped <= memory->seq);
        work(&world, in);
        finish(&world);
    }
    free(memory);
}

static void try_heads(in_t *in)
{
    event_memory_head_t file = {0};
    ring_spooled_t spooled = {0};
    size_t n = (size_t)(in->end - in->at);

    memcpy(&file, in->at, n < sizeof(file) ? n : sizeof(file));
    memcpy(file.magic, ring_file_magic, sizeof(file.magic));
    if (ring_file_is_whole(&file, n << 12))
        check(!file.slots || file.slots * file.slot_bytes + EVENT_MEMORY_HEAD <= n << 12);
    memcpy(&spooled, in->at, n < sizeof(spooled) ? n : sizeof(spooled));
    if (ring_spooled_is_batch(&spooled))
        check(spooled.seq && spooled.seq <= EVENT_NUMBER_MAX && spooled.dropped <= spooled.seq
              && ring_spooled_count(&spooled) && ring_spooled_count(&spooled) <= EVENT_BATCH_MAX
              && ring_spooled_worker(&spooled, 0) < RING_WORKERS_MAX && spooled.len
              && spooled.len <= RING_SPOOL_BYTES);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    in_t in = {data, data + size};

    switch (take(&in) % 4u) {
    case 0:
    case 1:
        try_worker(&in);
        break;
    case 2:
        try_bytes(&in);
        break;
    default:
        try_heads(&in);
    }
    return 0;
}
