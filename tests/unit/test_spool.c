#include "services/edge/events/spool.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MAX = 1 << 20, LEN = 300, OWNER = 1 };

static const off_t whole = sizeof(ring_spooled_t) + LEN;

static int a_file(void)
{
    char path[] = "/tmp/postern-spool-XXXXXX";
    int file = mkstemp(path);

    cr_assert_geq(file, 0);
    cr_assert_eq(unlink(path), 0);
    return file;
}

static spool_t a_spool(void)
{
    spool_t spool;
    off_t cut;

    cr_assert_eq(spool_attach(&spool, a_file(), OWNER, &cut), 0);
    cr_assert_eq(cut, 0);
    return spool;
}

static off_t size_of(int file)
{
    return lseek(file, 0, SEEK_END);
}

/* Its number is in each of its bytes. */
static int append(spool_t *spool, uint64_t seq)
{
    ring_spooled_t head = {.boot = 5, .seq = seq, .len = LEN, .count = 1};
    char data[LEN];

    memset(data, (int)seq, sizeof(data));
    return spool_append(spool, &head, OWNER, data, MAX);
}

/* From the beginning exactly these batches, whole. */
static void expect(const spool_t *spool, const uint64_t *seqs, size_t n)
{
    ring_spooled_t head;
    unsigned char data[LEN];
    off_t at = 0;

    for (size_t i = 0; i < n; i++) {
        cr_assert_eq(spool_read(spool, at, &head), 1, "batch %zu of %zu", i, n);
        cr_expect_eq(head.seq, seqs[i]);
        cr_assert_eq(pread(spool->file, data, LEN, at + (off_t)sizeof(head)), LEN);
        cr_expect_eq(data[0], seqs[i]);
        cr_expect_eq(data[LEN - 1], seqs[i]);
        at = spool_behind(at, &head);
    }
    cr_expect_eq(spool_read(spool, at, &head), 0);
    cr_expect_eq(spool->end, at);
    cr_expect_eq(size_of(spool->file), at);
}

#define EXPECT(spool, ...)                                                                         \
    expect(spool, (const uint64_t[]){__VA_ARGS__}, sizeof((const uint64_t[]){__VA_ARGS__}) / 8)

Test(spool, batches_are_read_as_they_were_appended_and_go_when_all_are_acknowledged)
{
    spool_t spool = a_spool();

    cr_assert_eq(append(&spool, 1), 0);
    cr_assert_eq(append(&spool, 2), 0);
    EXPECT(&spool, 1, 2);
    spool.acked = spool.sent = whole;
    cr_assert_eq(spool_trim(&spool), 0);
    EXPECT(&spool, 1, 2);
    spool.acked = spool.sent = spool.end;
    cr_assert_eq(spool_trim(&spool), 0);
    cr_expect_eq(size_of(spool.file), 0);
    cr_expect_eq(spool.acked, 0);
}

Test(spool, a_batch_for_which_the_file_is_too_small_by_its_bound_is_refused)
{
    spool_t spool = a_spool();
    ring_spooled_t head = {.seq = 1, .len = LEN, .count = 1};
    char data[LEN] = "";

    cr_assert_eq(spool_append(&spool, &head, OWNER, data, whole - 1), -EFBIG);
    cr_assert_eq(size_of(spool.file), 0);
    cr_assert_eq(spool_append(&spool, &head, OWNER, data, whole), 0);
}

struct torn_case {
    char what[40];
    int more;            /* bytes of a third batch; or, below 0, so many zeros */
    ring_spooled_t head; /* of that */
};

ParameterizedTestParameters(spool, what_is_torn_is_cut_off_before_anything_comes_behind_it)
{
    static struct torn_case cases[] = {
        {"in its head", sizeof(ring_spooled_t) - 1, {.seq = 3, .len = LEN, .count = 1}},
        {"behind its head", sizeof(ring_spooled_t), {.seq = 3, .len = LEN, .count = 1}},
        {"in its body", sizeof(ring_spooled_t) + LEN - 1, {.seq = 3, .len = LEN, .count = 1}},
        {"zeros, of a power cut", -500, {0}},
        {"longer than a batch", 200, {.seq = 3, .len = RING_SPOOL_BYTES + 1, .count = 1}},
        {"a number that is none", 200, {.seq = 1ull << 60, .len = 100, .count = 1}},
    };
    return cr_make_param_array(struct torn_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct torn_case *c, spool,
                  what_is_torn_is_cut_off_before_anything_comes_behind_it)
{
    spool_t spool = a_spool(), again;
    unsigned char torn[sizeof(ring_spooled_t) + LEN] = "";
    size_t more = (size_t)(c->more < 0 ? -c->more : c->more);
    off_t cut;

    cr_assert_eq(append(&spool, 1), 0);
    cr_assert_eq(append(&spool, 2), 0);
    if (c->more > 0)
        memcpy(torn, &c->head, sizeof(c->head));
    for (size_t i = 0; i < more; i += sizeof(torn)) {
        size_t n = more - i < sizeof(torn) ? more - i : sizeof(torn);

        cr_assert_eq(pwrite(spool.file, torn, n, spool.end + (off_t)i), (ssize_t)n);
    }
    cr_assert_eq(spool_attach(&again, spool.file, OWNER, &cut), 0);
    cr_expect_eq(cut, (off_t)more, "%s", c->what);
    cr_expect_eq(again.sent, 0);
    EXPECT(&again, 1, 2);
    cr_assert_eq(append(&again, 4), 0);
    EXPECT(&again, 1, 2, 4);
}

/* As on a full disk: what of a write has room is written. */
static void limit_files(rlim_t bytes)
{
    struct rlimit limit = {bytes, RLIM_INFINITY};

    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
}

Test(spool, of_a_batch_that_finds_no_room_nothing_stays)
{
    spool_t spool = a_spool();

    cr_assert_eq(append(&spool, 1), 0);
    for (rlim_t room = 0; room < (rlim_t)whole; room += 47) {
        limit_files((rlim_t)whole + room);
        cr_assert_lt(append(&spool, 2), 0);
        EXPECT(&spool, 1);
    }
    limit_files(RLIM_INFINITY);
    cr_assert_eq(append(&spool, 3), 0);
    EXPECT(&spool, 1, 3);
}

Test(spool, another_one_is_taken_over_up_to_where_it_is_torn)
{
    spool_t from = a_spool(), spool = a_spool();
    off_t at = 0;

    cr_assert_eq(append(&from, 1), 0);
    cr_assert_eq(append(&from, 2), 0);
    cr_assert_eq(append(&from, 3), 0);
    cr_assert_eq(ftruncate(from.file, from.end - 1), 0);
    cr_assert_eq(append(&spool, 9), 0);
    cr_assert_eq(spool_copy(&spool, from.file, OWNER, &at, MAX), 1);
    cr_assert_eq(spool_copy(&spool, from.file, OWNER, &at, MAX), 1);
    cr_assert_eq(spool_copy(&spool, from.file, OWNER, &at, MAX), 0);
    cr_assert_eq(at, 2 * whole);
    EXPECT(&spool, 9, 1, 2);
}

Test(spool, what_it_has_no_room_for_is_not_taken_over_and_leaves_nothing)
{
    spool_t from = a_spool(), spool = a_spool();
    off_t at = 0;

    cr_assert_eq(append(&from, 1), 0);
    cr_assert_eq(append(&from, 2), 0);
    cr_assert_eq(spool_copy(&spool, from.file, OWNER, &at, MAX), 1);
    limit_files((rlim_t)whole + 100);
    cr_assert_lt(spool_copy(&spool, from.file, OWNER, &at, MAX), 0);
    cr_assert_eq(at, whole);
    EXPECT(&spool, 1);
    limit_files(RLIM_INFINITY);
    cr_assert_eq(spool_copy(&spool, from.file, OWNER, &at, whole), -EFBIG);
    cr_assert_eq(spool_copy(&spool, from.file, OWNER, &at, MAX), 1);
    EXPECT(&spool, 1, 2);
}

/* Whose they are is a part of their producer's name, and goes with them from spool to spool. */
Test(spool, batches_that_are_taken_over_keep_the_worker_that_made_them)
{
    spool_t from = a_spool(), first = a_spool(), second = a_spool();
    ring_spooled_t head = {.seq = 1, .len = LEN, .count = EVENT_BATCH_MAX};
    char data[LEN] = "";
    off_t at = 0;

    from.owner = 5;
    cr_assert_eq(spool_append(&from, &head, 5, data, MAX), 0);
    cr_assert_eq(spool_append(&from, &head, RING_WORKERS_MAX - 1, data, MAX), 0);
    cr_assert_eq(spool_append(&from, &head, 0, data, MAX), 0);
    cr_assert_eq(spool_append(&from, &head, 1, data, MAX), 0);
    while (spool_copy(&first, from.file, 5, &at, MAX) > 0)
        ;
    at = 0;
    second.owner = 0;
    while (spool_copy(&second, first.file, 1, &at, MAX) > 0)
        ;
    cr_assert_eq(second.end, from.end);
    for (size_t i = 0; i < 4; i++) {
        const unsigned workers[] = {5, RING_WORKERS_MAX - 1, 0, 1};

        cr_assert_eq(spool_read(&first, (off_t)i * whole, &head), 1);
        cr_expect_eq(spool_worker(&first, &head), workers[i]);
        cr_assert_eq(spool_read(&second, (off_t)i * whole, &head), 1);
        cr_expect_eq(spool_worker(&second, &head), workers[i]);
        cr_expect_eq(ring_spooled_count(&head), EVENT_BATCH_MAX);
        /* an older edge reads what a worker has of its own number */
        cr_expect_eq(head.count == EVENT_BATCH_MAX, workers[i] == 0);
    }
}
