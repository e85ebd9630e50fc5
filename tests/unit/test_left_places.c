#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdint.h>

#include "services/edge/http/left_places.h"

struct places_case {
    size_t connections, files, want;
};

ParameterizedTestParameters(left_places, sockets_that_are_left_take_no_file_of_a_connection)
{
    static struct places_case cases[] = {
        {8192, SIZE_MAX, LEFT_PLACES}, /* no limit */
        {8192, 20000, LEFT_PLACES},
        {8192, 8192 + LEFT_FILES_BESIDE + LEFT_PLACES, LEFT_PLACES},
        {8192, 8192 + LEFT_FILES_BESIDE + LEFT_PLACES - 1, LEFT_PLACES - 1},
        {8192, 8192 + LEFT_FILES_BESIDE + 100, 100},
        {8192, 8192 + LEFT_FILES_BESIDE, LEFT_PLACES_FEW},
        {8192, 1024, LEFT_PLACES_FEW}, /* connections lack some anyway */
    };

    return cr_make_param_array(struct places_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct places_case *c, left_places,
                  sockets_that_are_left_take_no_file_of_a_connection)
{
    cr_assert_eq(left_places(c->connections, c->files), c->want, "%zu of %zu", c->connections,
                 c->files);
}
