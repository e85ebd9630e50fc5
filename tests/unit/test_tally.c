/* Rows of routes in shared memory: each route has its own while there is room, one that is given back
 * counts for nobody who had it, and what a worker left half done is put in order. */
#include "services/edge/worker/tally.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOG = 7 };

static tally_t *tally_of(size_t rows)
{
    void *memory = aligned_alloc(64, (tally_size(rows) + 63) / 64 * 64);

    memset(memory, 0, tally_size(rows));
    return tally_init(memory, rows);
}

static void serve(tally_t *self, route_place_t place, unsigned status)
{
    tally_count(self, place,
                &(tally_request_t){.status = status,
                                   .request_bytes = 10,
                                   .response_bytes = 100,
                                   .upstream_failed = status == 502});
}

/* "r1: 0 2 0 0 1 20 200 1", or "none": nobody has the row; of the row of this route, "" the others. */
static const char *says(const tally_t *self, size_t rows, const char *route)
{
    static char said[200];
    char id[TALLY_ID_MAX + 1];
    tally_counts_t counts;

    for (size_t i = 0; i <= rows; i++)
        if (tally_read(self, i, id, &counts) && !strcmp(id, route)) {
            snprintf(said, sizeof(said), "%s: %lu %lu %lu %lu %lu %lu %lu %lu", id,
                     counts.requests[0], counts.requests[1], counts.requests[2], counts.requests[3],
                     counts.requests[4], counts.request_bytes, counts.response_bytes,
                     counts.upstream_errors);
            return said;
        }
    return "none";
}

Test(tally, counts_each_route_by_itself_and_those_beyond_the_bound_together)
{
    tally_t *self = tally_of(2);
    route_place_t one = tally_take(self, "r1", LOG, 1), two = tally_take(self, "r2", LOG, 2),
                  three = tally_take(self, "r3", LOG, 3);

    cr_assert_eq(three.number, 0);
    cr_assert_eq(tally_taken(self), 2);
    serve(self, one, 101);
    serve(self, one, 200);
    serve(self, one, 299);
    serve(self, one, 502);
    serve(self, two, 301);
    serve(self, two, 404);
    serve(self, three, 200);
    serve(self, three, 0); /* a client that left before there was a status */
    cr_assert_str_eq(says(self, 2, "r1"), "r1: 1 2 0 0 1 40 400 1");
    cr_assert_str_eq(says(self, 2, "r2"), "r2: 0 0 1 1 0 20 200 0");
    cr_assert_str_eq(says(self, 2, ""), ": 0 1 0 0 0 20 200 0");
    cr_assert_str_eq(says(self, 2, "r3"), "none");
    free(self);
}

Test(tally, a_route_has_one_row_whichever_worker_and_version_asks)
{
    tally_t *self = tally_of(4);
    route_place_t one = tally_take(self, "r1", LOG, 1), again = tally_take(self, "r1", LOG, 9);

    cr_assert(one.number == again.number && one.turn == again.turn);
    cr_assert_eq(tally_taken(self), 1);
    free(self);
}

Test(tally, a_route_that_is_gone_gives_its_row_back_and_counts_with_the_others)
{
    tally_t *self = tally_of(1);
    route_place_t one = tally_take(self, "r1", LOG, 1), two;

    serve(self, one, 200);
    tally_drop(self, "r1");
    tally_drop(self, "r1");
    tally_drop(self, "r9");
    cr_assert_str_eq(says(self, 1, "r1"), "none");
    serve(self, one, 200); /* a request that outlives its route */
    two = tally_take(self, "r2", LOG, 2);
    cr_assert_eq(two.number, one.number);
    serve(self, one, 200); /* and its row's next turn */
    cr_assert_str_eq(says(self, 1, "r2"), "r2: 0 0 0 0 0 0 0 0");
    cr_assert_str_eq(says(self, 1, ""), ": 0 2 0 0 0 20 200 0");
    free(self);
}

Test(tally, an_id_that_is_no_label_or_too_long_has_no_row)
{
    static const char *const ids[] = {"", "a\"b", "a\nb", "a b", "a\\b", "\xc3\xa4"};
    char longest[TALLY_ID_MAX + 2];
    tally_t *self = tally_of(4);

    for (size_t i = 0; i < sizeof(ids) / sizeof(*ids); i++)
        cr_assert_eq(tally_take(self, ids[i], LOG, 1).number, 0, "%s", ids[i]);
    memset(longest, 'a', sizeof(longest));
    longest[TALLY_ID_MAX + 1] = '\0';
    cr_assert_eq(tally_take(self, longest, LOG, 1).number, 0);
    tally_drop(self, longest);
    longest[TALLY_ID_MAX] = '\0';
    cr_assert_neq(tally_take(self, longest, LOG, 1).number, 0);
    free(self);
}

static bool is_r2(void *context, const char *id)
{
    (void)context;
    return !strcmp(id, "r2");
}

Test(tally, a_table_that_takes_the_place_of_another_gives_back_what_it_does_not_have)
{
    tally_t *self = tally_of(4);

    tally_take(self, "r1", LOG, 3);
    tally_take(self, "r2", LOG, 3);
    tally_take(self, "r3", LOG, 8);     /* by a worker that is ahead of this table */
    tally_take(self, "r4", LOG + 1, 8); /* of a log that is no more */
    tally_sweep(self, is_r2, NULL, LOG, 5);
    cr_assert_str_eq(says(self, 4, "r1"), "none");
    cr_assert_str_eq(says(self, 4, "r4"), "none");
    cr_assert_str_neq(says(self, 4, "r2"), "none");
    cr_assert_str_neq(says(self, 4, "r3"), "none");
    cr_assert_eq(tally_taken(self), 2);
    for (int i = 5; i < 9; i++) {
        char id[8];

        snprintf(id, sizeof(id), "r%d", i);
        cr_assert_eq(tally_take(self, id, LOG, 9).number != 0, i < 7, "%s", id);
    }
    free(self);
}

/* Random takes, drops and sweeps against a list. */
Test(tally, has_a_row_for_whoever_took_one_last)
{
    enum { ROWS = 20, ROUTES = 40, STEPS = 20000 };
    tally_t *self = tally_of(ROWS);
    uint32_t seed = 1;
    bool has[ROUTES] = {false};
    unsigned served[ROUTES] = {0}, count = 0;

    for (int step = 0; step < STEPS; step++) {
        unsigned route;
        char id[8], want[64];

        seed = seed * 1664525u + 1013904223u;
        route = seed >> 16 & 0xffff;
        snprintf(id, sizeof(id), "r%u", route % ROUTES);
        if (route % 3) {
            route_place_t place = tally_take(self, id, LOG, step);

            route %= ROUTES;
            cr_assert_eq(place.number != 0, has[route] || count < ROWS, "step %d", step);
            if (!place.number)
                continue;
            count += !has[route];
            served[route] = has[route] ? served[route] : 0;
            has[route] = true;
            serve(self, place, 200);
            served[route]++;
            snprintf(want, sizeof(want), "%s: 0 %u 0 0 0 %u %u 0", id, served[route],
                     10 * served[route], 100 * served[route]);
            cr_assert_str_eq(says(self, ROWS, id), want);
        } else {
            tally_drop(self, id);
            count -= has[route % ROUTES];
            has[route % ROUTES] = false;
        }
        cr_assert_eq(tally_taken(self), count);
    }
    free(self);
}
