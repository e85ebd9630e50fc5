/* Shares of weighted backends: numbers of requests (http/rotation.h) to members (table_choose). */
#include "services/edge/http/rotation.h"
#include "services/edge/table/document.h"
#include "services/edge/table/slab.h"
#include "services/edge/table/table.h"

#include <criterion/criterion.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 100 };

/* A static backend each, and a weighted one of them. */
static void apply(table_t *table, const char *kind, const char *id, msgpack_sbuffer *bytes)
{
    msgpack_unpacked unpacked;

    msgpack_unpacked_init(&unpacked);
    cr_assert_eq(msgpack_unpack_next(&unpacked, bytes->data, bytes->size, NULL),
                 MSGPACK_UNPACK_SUCCESS);
    cr_assert_eq(table_apply(table, kind, strlen(kind), id, strlen(id), &unpacked.data, TRUST_ALL),
                 0);
    msgpack_unpacked_destroy(&unpacked);
    msgpack_sbuffer_clear(bytes);
}

static void put_text(msgpack_packer *pk, const char *text)
{
    msgpack_pack_str(pk, strlen(text));
    msgpack_pack_str_body(pk, text, strlen(text));
}

static void put_member(table_t *table, size_t i)
{
    msgpack_sbuffer bytes;
    msgpack_packer pk;
    char id[8];

    msgpack_sbuffer_init(&bytes);
    msgpack_packer_init(&pk, &bytes, msgpack_sbuffer_write);
    snprintf(id, sizeof(id), "m%zu", i);
    msgpack_pack_map(&pk, 1);
    put_text(&pk, "address");
    put_text(&pk, "127.0.0.1:80");
    apply(table, "static_backend", id, &bytes);
    msgpack_sbuffer_destroy(&bytes);
}

static void put_weights(table_t *table, const unsigned *weights, size_t n)
{
    msgpack_sbuffer bytes;
    msgpack_packer pk;
    char id[8];

    msgpack_sbuffer_init(&bytes);
    msgpack_packer_init(&pk, &bytes, msgpack_sbuffer_write);
    msgpack_pack_map(&pk, 1);
    put_text(&pk, "backends");
    msgpack_pack_map(&pk, n);
    for (size_t i = 0; i < n; i++) {
        snprintf(id, sizeof(id), "m%zu", i);
        put_text(&pk, id);
        msgpack_pack_uint32(&pk, weights[i]);
    }
    apply(table, "weighted_backend", "w", &bytes);
    msgpack_sbuffer_destroy(&bytes);
}

static table_t *make_members(void)
{
    table_t *table = table_new();

    for (size_t i = 0; i < MOST; i++)
        put_member(table, i);
    return table;
}

static void drop(table_t *table)
{
    while (!table_free_some(&table, 1000)) { /* void */
    }
}

static size_t member_of(const table_t *table, uint64_t number)
{
    const backend_t *chosen = table_choose(table, table_backend(table, "w"), number);

    cr_assert_not_null(chosen);
    return strtoul(chosen->id + 1, NULL, 10);
}

static size_t random_weights(unsigned *weights)
{
    static const unsigned most[] = {1, 2, 5, 100, 10000};
    size_t n = (size_t)random() % (random() % 4 ? 9 : MOST) + 1;
    unsigned max = most[(size_t)random() % 5];

    for (size_t i = 0; i < n; i++)
        weights[i] = (unsigned)random() % (max + 1);
    weights[(size_t)random() % n] = (unsigned)random() % max + 1;
    return n;
}

/* After each request of a row that begins anywhere. */
static void check_row(const table_t *table, const unsigned *weights, size_t n, uint64_t from,
                      size_t length)
{
    size_t counts[MOST] = {0}, used = 0, depth = 0;
    double sum = 0;

    for (size_t i = 0; i < n; i++) {
        sum += weights[i];
        used += weights[i] > 0;
    }
    while (((size_t)1 << depth) < used)
        depth++;
    for (size_t k = 1; k <= length; k++) {
        counts[member_of(table, from + k - 1)]++;
        for (size_t i = 0; i < n; i++) {
            double off = fabs((double)counts[i] - weights[i] / sum * (double)k);

            cr_assert_leq(off, (double)depth + 1e-6,
                          "member %zu of %zu, weight %u of %g: %zu of %zu", i, n, weights[i], sum,
                          counts[i], k);
            cr_assert_leq(off, (double)used);
        }
    }
}

Test(weights, in_any_row_of_requests_a_member_has_its_share_to_less_than_the_number_of_members)
{
    table_t *table = make_members();

    srandom(11);
    for (int round = 0; round < 400; round++) {
        unsigned weights[MOST];
        size_t n = random_weights(weights);

        put_weights(table, weights, n);
        check_row(table, weights, n, (uint64_t)random() * (uint64_t)(round % 3), 600);
    }
    drop(table);
}

Test(weights, a_long_history_is_exact)
{
    unsigned weights[] = {1, 9999, 3, 10000, 0, 77, 5000};
    table_t *table = make_members();
    size_t counts[7] = {0};
    const size_t sum = 25080, rounds = 40;

    put_weights(table, weights, 7);
    check_row(table, weights, 7, 12345, 100000);
    for (size_t k = 0; k < sum * rounds; k++)
        counts[member_of(table, k)]++;
    for (size_t i = 0; i < 7; i++)
        cr_assert_eq(counts[i], weights[i] * rounds);
    drop(table);
}

/* Numbers go on when weights change: each row between two changes is as exact as any. */
Test(weights, changes_of_weights_begin_a_row_that_is_as_exact)
{
    table_t *table = make_members();
    rotations_t *rotations = calloc(1, sizeof(*rotations));

    srandom(13);
    for (int round = 0; round < 300; round++) {
        unsigned weights[MOST];
        size_t n = random_weights(weights), length = (size_t)random() % 400;
        uint64_t from;

        put_weights(table, weights, n);
        from = rotation_next(rotations, backend_key(table_backend(table, "w")), 1);
        check_row(table, weights, n, from, length + 1);
        for (size_t i = 0; i < length; i++)
            rotation_next(rotations, backend_key(table_backend(table, "w")), 1);
    }
    free(rotations);
    drop(table);
}

/* The same weights, put again and again, as a client does that always sends all: nothing is counted
 * anew. */
Test(weights, the_same_weights_again_change_nothing)
{
    unsigned weights[] = {1, 1}, doubled[] = {2, 2};
    table_t *table = make_members();
    rotations_t *rotations = calloc(1, sizeof(*rotations));
    size_t counts[2] = {0};

    for (size_t k = 0; k < 100; k++) {
        put_weights(table, k % 2 ? weights : doubled, 2);
        counts[member_of(table,
                         rotation_next(rotations, backend_key(table_backend(table, "w")), 1))]++;
    }
    cr_assert_eq(counts[0], 50);
    cr_assert_eq(counts[1], 50);
    free(rotations);
    drop(table);
}

Test(weights, without_a_weight_nobody_is_chosen)
{
    unsigned none[] = {0, 0};
    table_t *table = make_members();

    put_weights(table, none, 2);
    cr_assert_null(table_choose(table, table_backend(table, "w"), 0));
    drop(table);
}

/* ---- numbers ---- */

enum { THREADS = 4, EACH = 20000 };

static rotations_t *shared;
static unsigned char seen[THREADS * EACH];

static void *take_numbers(void *unused)
{
    for (int i = 0; i < EACH; i++) {
        uint64_t number = rotation_next(shared, 77, 5000);

        cr_assert_lt(number, sizeof(seen));
        __atomic_add_fetch(&seen[number], 1, __ATOMIC_RELAXED);
    }
    return unused;
}

Test(rotation, all_workers_number_together_and_no_number_comes_twice)
{
    pthread_t threads[THREADS];

    shared = calloc(1, sizeof(*shared));
    for (int i = 0; i < THREADS; i++)
        pthread_create(&threads[i], NULL, take_numbers, NULL);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (size_t i = 0; i < sizeof(seen); i++)
        cr_assert_eq(seen[i], 1, "number %zu: %d times", i, seen[i]);
    free(shared);
}

Test(rotation, backends_are_numbered_by_themselves)
{
    rotations_t *self = calloc(1, sizeof(*self));

    for (uint64_t k = 0; k < 50; k++)
        for (uint64_t key = 1; key <= 1000; key++) {
            cr_assert_eq(rotation_look(self, key), k);
            cr_assert_eq(rotation_next(self, key, 1000 * k), k);
        }
    free(self);
}

Test(rotation, memory_is_bounded_and_who_was_used_last_longest_ago_makes_room)
{
    enum { SETS = ROTATIONS_MAX / ROTATION_WAYS };
    rotations_t *self = calloc(1, sizeof(*self));

    for (uint64_t i = 1; i <= ROTATION_WAYS; i++)
        for (uint64_t k = 0; k < 7; k++)
            rotation_next(self, SETS * i, 1000 * (i + 10));
    rotation_next(self, SETS, 100 * 1000);         /* the first was used again */
    rotation_next(self, SETS * 99ull, 200 * 1000); /* so the second loses its place */
    for (uint64_t i = 3; i <= ROTATION_WAYS; i++)
        cr_assert_eq(rotation_next(self, SETS * i, 300 * 1000), 7);
    cr_assert_eq(rotation_next(self, SETS, 300 * 1000), 8);
    free(self);
}
