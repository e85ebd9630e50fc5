#include "services/events/batch.h"

#include <criterion/criterion.h>
#include <string.h>

static const unsigned char two[] = "\x01\x00\x00\x00\x01"
                                   "t\x01"
                                   "\x02\x00\x00\x00\x02"
                                   "tt\x91\x01";

Test(batch, splits_into_its_events)
{
    event_view_t view;
    size_t offset = 0;

    cr_assert_eq(batch_next(two, sizeof(two) - 1, &offset, &view), 1);
    cr_assert_eq(view.topic_len, 1);
    cr_assert_eq(batch_next(two, sizeof(two) - 1, &offset, &view), 1);
    cr_assert_eq(view.body_len, 2);
    cr_assert_eq(batch_next(two, sizeof(two) - 1, &offset, &view), 0);
    cr_assert_eq(batch_check(two, sizeof(two) - 1, 2), 0);
}

Test(batch, refuses_a_wrong_count_and_every_cut)
{
    cr_assert_neq(batch_check(two, sizeof(two) - 1, 3), 0);
    for (size_t n = 1; n + 1 < sizeof(two); n++)
        cr_assert_neq(batch_check(two, n, 2), 0, "cut at %zu", n);
}
