#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>

#include "services/edge/http/left_places.h"

struct places_case {
    size_t connections, beside, files, want;
};

ParameterizedTestParameters(left_places, sockets_that_are_left_take_no_file_of_a_connection)
{
    enum { BESIDE = 64 };
    static struct places_case cases[] = {
        {8192, BESIDE, SIZE_MAX, LEFT_PLACES}, /* no limit */
        {8192, BESIDE, 20000, LEFT_PLACES},
        {8192, BESIDE, 8192 + BESIDE + LEFT_PLACES, LEFT_PLACES},
        {8192, BESIDE, 8192 + BESIDE + LEFT_PLACES - 1, LEFT_PLACES - 1},
        {8192, 2 * BESIDE, 8192 + BESIDE + LEFT_PLACES, LEFT_PLACES - BESIDE},
        {8192, BESIDE, 8192 + BESIDE + 100, 100},
        {8192, BESIDE, 8192 + BESIDE, LEFT_PLACES_FEW},
        {8192, BESIDE, 1024, LEFT_PLACES_FEW}, /* connections lack some anyway */
    };

    return cr_make_param_array(struct places_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct places_case *c, left_places,
                  sockets_that_are_left_take_no_file_of_a_connection)
{
    cr_assert_eq(left_places(c->connections, c->beside, c->files), c->want, "%zu and %zu of %zu",
                 c->connections, c->beside, c->files);
}

/* Of 24 workers that listen on four sockets each, and on one together, one has 133 open files
 * before the first connection. */
Test(left_places, files_beside_are_of_all_workers)
{
    cr_assert_geq(left_files_beside(4 * 24 + 1, 24), 133);
    cr_assert_leq(left_files_beside(2 * 2 + 1, 2), 80);
}
