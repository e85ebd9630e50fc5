#include "services/edge/events/ring.h"
#include "services/events/batch.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <msgpack.h>
#include <stdlib.h>
#include <string.h>

enum { SIZE = 4096, EVENT = 40, RINGS_MAX = 16 };

static ring_memory_t *memories[RINGS_MAX];
static int made;

static void free_rings(void)
{
    while (made > 0)
        free(memories[--made]);
}

TestSuite(ring, .fini = free_rings);

static ring_t a_ring(void)
{
    ring_memory_t *memory = calloc(1, sizeof(*memory) + SIZE);
    ring_t ring;

    cr_assert(memory && made < RINGS_MAX);
    memories[made++] = memory;
    memory->size = SIZE;
    cr_assert_eq(ring_attach(&ring, memory, sizeof(*memory) + SIZE), 0);
    ring_clear(&ring, 5);
    return ring;
}

static void write_events(ring_t *ring, int n)
{
    size_t room;
    bool first;

    for (int i = 0; i < n; i++) {
        unsigned char *at = ring_reserve(ring, &room, &first);

        cr_assert(at && room >= EVENT);
        memset(at, 'e', EVENT);
        ring_commit(ring, EVENT);
    }
}

static ring_record_t *first_record(const ring_t *ring)
{
    return (ring_record_t *)ring->memory->data;
}

static void expect(const ring_t *ring, uint64_t *offset, uint64_t seq, uint32_t count,
                   uint64_t dropped)
{
    ring_batch_t batch;

    cr_assert_eq(ring_read(ring, *offset, &batch), 1);
    cr_expect_eq(batch.is.seq, seq);
    cr_expect_eq(batch.is.count, count);
    cr_expect_eq(batch.is.dropped, dropped);
    cr_expect_eq(batch.is.len, count * EVENT);
    *offset = batch.next;
}

Test(ring, a_batch_is_read_once_it_is_sealed)
{
    ring_t ring = a_ring();
    ring_batch_t batch;
    uint64_t offset = 0;

    write_events(&ring, 2);
    cr_assert_eq(ring_read(&ring, 0, &batch), 0);
    ring_seal(&ring);
    expect(&ring, &offset, 2, 2, 0);
    cr_assert_eq(ring_read(&ring, offset, &batch), 0);
    ring_free_to(&ring, offset);
    cr_assert(ring_is_empty(&ring));
}

/* The numbers of a batch follow each other: what is dropped in between is told by the next. */
Test(ring, what_is_dropped_while_a_batch_is_open_is_told_before_the_next_event)
{
    ring_t ring = a_ring();
    uint64_t offset = 0;
    size_t room;
    bool first;

    write_events(&ring, 1);
    ring_drop(&ring, 1);
    cr_assert_not_null(
        ring_reserve(&ring, &room, &first)); /* too large for it, however small the batch */
    ring_drop(&ring, 1);
    write_events(&ring, 1);
    ring_seal(&ring);
    expect(&ring, &offset, 1, 1, 0);
    expect(&ring, &offset, 4, 1, 2);
}

Test(ring, an_event_that_its_worker_was_killed_over_is_told_as_dropped)
{
    ring_t ring = a_ring();
    uint64_t offset = 0;

    write_events(&ring, 2);
    ring.memory->seq++; /* as if killed before the event counted */
    cr_assert_not(ring_mend(&ring, 6));
    write_events(&ring, 1);
    ring_seal(&ring);
    expect(&ring, &offset, 2, 2, 0);
    expect(&ring, &offset, 4, 1, 1);
    cr_assert_eq(ring.memory->boot, 5);
}

Test(ring, a_batch_that_its_worker_was_killed_sealing_is_whole)
{
    ring_t ring = a_ring();
    uint64_t offset = 0;

    write_events(&ring, 3);
    first_record(&ring)->seq = 3;
    cr_assert_not(ring_mend(&ring, 6));
    expect(&ring, &offset, 3, 3, 0);
    cr_assert_eq(ring.memory->head, offset);
}

/* As an older edge leaves it: the record of an open batch has the number of its last event. */
Test(ring, an_open_batch_of_an_older_edge_is_whole)
{
    ring_t ring = a_ring();
    uint64_t offset = 0;

    write_events(&ring, 1);
    ring_seal(&ring);
    write_events(&ring, 2);
    ((ring_record_t *)(ring.memory->data + ring.memory->open))->seq = 3;
    cr_assert_not(ring_mend(&ring, 6));
    expect(&ring, &offset, 1, 1, 0);
    expect(&ring, &offset, 3, 2, 0);
}

struct spoilt_case {
    char what[24];
    size_t at; /* in the second record */
    uint64_t value;
};

ParameterizedTestParameters(ring, what_no_worker_writes_is_cut_off_and_counted)
{
    static struct spoilt_case cases[] = {
        {"longer than the ring", 0, (uint64_t)4 << 32 | 0xfffffff0},
        {"longer than it is", 0, (uint64_t)4 << 32 | 2000},
        {"no events", 0, 4 * EVENT},
        {"number of another", offsetof(ring_record_t, seq), 77},
        {"no number", offsetof(ring_record_t, seq), UINT64_MAX},
        {"dropped all", offsetof(ring_record_t, dropped), UINT64_MAX - 3},
        {"neither open nor sealed", offsetof(ring_record_t, sealed), 9},
    };
    return cr_make_param_array(struct spoilt_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct spoilt_case *c, ring, what_no_worker_writes_is_cut_off_and_counted)
{
    ring_t ring = a_ring();
    uint64_t offset = 0, second;

    write_events(&ring, 2);
    ring_seal(&ring);
    second = ring.memory->head;
    write_events(&ring, 4);
    ring_seal(&ring);
    memcpy(ring.memory->data + second + c->at, &c->value, sizeof(c->value));
    cr_assert(ring_mend(&ring, 6), "%s", c->what);
    write_events(&ring, 1);
    ring_seal(&ring);
    expect(&ring, &offset, 2, 2, 0);
    expect(&ring, &offset, 7, 1, 4);
}

Test(ring, places_that_are_none_make_an_empty_ring_with_another_name)
{
    const uint64_t heads[][2] = {{8, 0}, {UINT64_MAX, UINT64_MAX - 8}, {SIZE + 8, 0}, {3, 3}};

    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        ring_t ring = a_ring();

        ring.memory->tail = heads[i][0];
        ring.memory->head = i == 2 ? 2 * SIZE + 24 : heads[i][1];
        cr_assert(ring_mend(&ring, 6));
        cr_assert(ring_is_empty(&ring));
        cr_assert_eq(ring.memory->boot, 6);
    }
}

Test(ring, memory_that_is_smaller_than_the_ring_in_it_is_none)
{
    ring_t ring = a_ring(), other;

    cr_assert_eq(ring_attach(&other, ring.memory, sizeof(ring_memory_t) + SIZE - 1), -EBADMSG);
    cr_assert_eq(ring_attach(&other, ring.memory, 8), -EBADMSG);
    ring.memory->size = 0;
    cr_assert_eq(ring_attach(&other, ring.memory, sizeof(ring_memory_t) + SIZE), -EBADMSG);
    ring.memory->size = UINT64_MAX;
    cr_assert_eq(ring_attach(&other, ring.memory, sizeof(ring_memory_t) + SIZE), -EBADMSG);
}

/* One that is taken over and then not read would hide all that comes behind it. */
Test(ring, a_spooled_batch_has_number_events_and_bytes)
{
    const ring_spooled_t good = {.seq = 3, .count = 1, .len = 7};
    ring_spooled_t head = good;

    cr_assert(ring_spooled_is_batch(&head));
    head.seq = 0;
    cr_assert_not(ring_spooled_is_batch(&head));
    head = good;
    head.count = 0;
    cr_assert_not(ring_spooled_is_batch(&head));
    head = good;
    head.len = 0;
    cr_assert_not(ring_spooled_is_batch(&head));
    head.len = RING_SPOOL_BYTES + 1;
    cr_assert_not(ring_spooled_is_batch(&head));
}

static void pack_text(msgpack_packer *packer, const char *text)
{
    msgpack_pack_str(packer, strlen(text));
    msgpack_pack_str_body(packer, text, strlen(text));
}

/* The header that an edge sends of a batch on disk. */
static bool is_read(const ring_spooled_t *head)
{
    msgpack_sbuffer header;
    msgpack_packer packer;
    batch_t batch;
    char seq[24];
    int r;

    snprintf(seq, sizeof(seq), "%llu", (unsigned long long)head->seq);
    msgpack_sbuffer_init(&header);
    msgpack_packer_init(&packer, &header, msgpack_sbuffer_write);
    msgpack_pack_map(&packer, 5);
    pack_text(&packer, "producer");
    pack_text(&packer, "edge/0/1");
    pack_text(&packer, "family");
    pack_text(&packer, "traffic");
    pack_text(&packer, "seq");
    pack_text(&packer, seq);
    pack_text(&packer, "count");
    msgpack_pack_uint32(&packer, ring_spooled_count(head));
    pack_text(&packer, "dropped");
    msgpack_pack_uint64(&packer, head->dropped);
    r = batch_header(header.data, header.size, &batch);
    msgpack_sbuffer_destroy(&header);
    return r == 0;
}

/* One that an edge sends and postern-events does not read is sent for ever, and none behind it. */
Test(ring, a_spooled_batch_is_one_exactly_where_postern_events_reads_its_head)
{
    const uint64_t most = EVENT_NUMBER_MAX;
    const uint64_t numbers[] = {0,        1,          2,         4096,       most - 1,  most,
                                most + 1, 1ull << 62, INT64_MAX, 1ull << 63, UINT64_MAX};
    const uint32_t counts[] = {1,         1024,      EVENT_BATCH_MAX, EVENT_BATCH_MAX + 1,
                               INT16_MAX, UINT16_MAX};
    const size_t n = sizeof(numbers) / sizeof(numbers[0]);

    for (size_t i = 0; i < n * n * sizeof(counts) / sizeof(counts[0]); i++) {
        ring_spooled_t head = {.seq = numbers[i % n],
                               .dropped = numbers[i / n % n],
                               .len = 1,
                               .count = counts[i / n / n]};

        cr_assert_eq(ring_spooled_is_batch(&head), is_read(&head), "seq %llu dropped %llu count %u",
                     (unsigned long long)head.seq, (unsigned long long)head.dropped, head.count);
    }
}

/* Those that follow a number that was believed are read, too. */
Test(ring, a_number_that_leaves_few_behind_it_is_none)
{
    ring_t ring = a_ring();

    ring.memory->seq = EVENT_NUMBER_MAX - 5;
    cr_assert(ring_mend(&ring, 6));
    cr_assert_eq(ring.memory->seq, 0);
    cr_assert_eq(ring.memory->boot, 6);
}

Test(ring, a_file_has_room_for_its_slots_and_they_begin_on_pages)
{
    event_memory_head_t file = {.slot_bytes = 8192, .slots = 2};

    memcpy(file.magic, ring_file_magic, sizeof(file.magic));
    cr_assert(ring_file_is_whole(&file, EVENT_MEMORY_HEAD + 16384));
    cr_assert_not(ring_file_is_whole(&file, EVENT_MEMORY_HEAD + 16383));
    file.slot_bytes = 4100;
    cr_assert_not(ring_file_is_whole(&file, 1 << 20));
    file.slot_bytes = 0;
    cr_assert_not(ring_file_is_whole(&file, 1 << 20));
    file.slot_bytes = 8192;
    file.slots = UINT64_MAX;
    cr_assert_not(ring_file_is_whole(&file, 1 << 20));
}
