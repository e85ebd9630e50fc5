#include "services/events/sequence.h"

#include <criterion/criterion.h>

static batch_t batch(int64_t seq, int64_t count, int64_t dropped, bool oldest)
{
    return (batch_t){.seq = seq, .count = count, .dropped = dropped, .oldest = oldest};
}

static int take(sequence_t *self, batch_t one)
{
    return sequence_take(self, &one);
}

Test(sequence, takes_batches_once_and_in_order)
{
    sequence_t self = {0};

    cr_assert_eq(take(&self, batch(10, 10, 0, true)), SEQUENCE_NEW);
    cr_assert_eq(take(&self, batch(30, 10, 0, false)), SEQUENCE_EARLY);
    cr_assert_eq(take(&self, batch(20, 10, 0, false)), SEQUENCE_NEW);
    cr_assert_eq(take(&self, batch(20, 10, 0, true)), SEQUENCE_OLD);
    cr_assert_eq(take(&self, batch(30, 10, 0, false)), SEQUENCE_NEW);
    cr_assert_eq(self.events, 30);
    cr_assert_eq(self.lost + self.dropped, 0);
}

Test(sequence, what_the_producer_dropped_is_no_gap)
{
    sequence_t self = {.known = true, .last = 10};

    cr_assert_eq(take(&self, batch(25, 10, 5, false)), SEQUENCE_NEW);
    cr_assert_eq(self.dropped, 5);
    cr_assert_eq(self.lost, 0);
}

/* A torn spool, or a database restored from an older backup: what is gone is counted once, and the
 * sequence goes on. */
Test(sequence, a_gap_before_the_oldest_batch_is_lost_for_good)
{
    sequence_t self = {.known = true, .last = 10};

    cr_assert_eq(take(&self, batch(40, 10, 0, false)), SEQUENCE_EARLY);
    cr_assert_eq(take(&self, batch(40, 10, 0, true)), SEQUENCE_NEW);
    cr_assert_eq(self.lost, 20);
    cr_assert_eq(take(&self, batch(50, 10, 0, false)), SEQUENCE_NEW);
    cr_assert_eq(self.lost, 20);
}

Test(sequence, a_producer_heard_first_in_the_middle_has_lost_the_beginning)
{
    sequence_t self = {0};

    cr_assert_eq(take(&self, batch(110, 10, 0, false)), SEQUENCE_NEW);
    cr_assert_eq(self.lost, 100);
}

/* What a producer says of itself is its own to make up: no sum goes wrong on it, in here or in a
 * bigint. */
Test(sequence, sums_end_at_the_largest_number)
{
    sequence_t self = {.known = true, .last = 1};

    for (int i = 0; i < 3000; i++)
        cr_assert_eq(
            take(&self, batch(BATCH_NUMBER_MAX - 3000 + i, 1, BATCH_NUMBER_MAX - 4000, true)),
            SEQUENCE_NEW);
    cr_assert_eq(self.dropped, BATCH_NUMBER_MAX);
    cr_assert_eq(self.events, 3000);
    self = (sequence_t){.known = true};
    cr_assert_eq(take(&self, batch(1, 3, 1, true)), SEQUENCE_NEW, "more than there are numbers");
    cr_assert_eq(self.lost, 0);
    self.lost = BATCH_NUMBER_MAX - 1;
    cr_assert_eq(take(&self, batch(1000, 1, 0, true)), SEQUENCE_NEW);
    cr_assert_eq(self.lost, BATCH_NUMBER_MAX);
}
