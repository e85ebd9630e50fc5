/* Audit events of a service's outbox: which go together, under what number, and what a refusal
 * makes of them. */
#include "common/resource/outbox_batch.h"
#include "common/base/cleanup.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>

enum { NOW = 1700000000 };

static outbox_batch_t a_batch(void)
{
    outbox_batch_t batch;

    outbox_batch_init(&batch, NOW);
    return batch;
}

/* Begin with so many rows of so many bytes. */
static void begin(outbox_batch_t *batch, int n, int bytes)
{
    int all[OUTBOX_BATCH_MAX];

    for (int i = 0; i < n; i++)
        all[i] = bytes;
    outbox_batch_begin(batch, all, n);
}

typedef struct size_case {
    int n, bytes, want;
    bool more;
} size_case_t;

static const size_case_t sizes[] = {
    {0, 0, 0, false},
    {1, 100, 1, false},
    {OUTBOX_BATCH_MAX - 1, 100, OUTBOX_BATCH_MAX - 1, false},
    {OUTBOX_BATCH_MAX, 100, OUTBOX_BATCH_MAX,
     true}, /* as many as were asked for: there may be more */
    {4, OUTBOX_BATCH_BYTES / 2, 2, true},
    {4, OUTBOX_BATCH_BYTES / 2 + 1, 1, true},
    {4, 3 * OUTBOX_BATCH_BYTES, 1, true}, /* one that is larger goes all the same */
    {1, 3 * OUTBOX_BATCH_BYTES, 1, false},
    {OUTBOX_BATCH_MAX, 1 << 30, 1, true}, /* whose sum is no int */
};

Test(outbox, a_batch_has_the_oldest_events_up_to_a_number_and_a_size)
{
    for (size_t i = 0; i < LEN(sizes); i++) {
        outbox_batch_t batch = a_batch();

        begin(&batch, sizes[i].n, sizes[i].bytes);
        cr_assert_eq(batch.count, sizes[i].want, "%zu: %d", i, batch.count);
        cr_assert_eq(outbox_batch_end(&batch), sizes[i].more, "%zu", i);
        cr_assert_eq(batch.count, 0);
    }
}

Test(outbox, a_number_is_used_for_one_batch_only_also_by_the_next_process)
{
    outbox_batch_t batch = a_batch(), next;
    int64_t first;

    begin(&batch, 2, 10);
    first = batch.number;
    cr_assert_gt(first, 1000LL * NOW);
    outbox_batch_drop(&batch); /* the connection ended: another copy may send these rows */
    begin(&batch, 2, 10);
    cr_assert_gt(batch.number, first, "what is read again is another batch");
    outbox_batch_init(&next, NOW + 1);
    begin(&next, 2, 10);
    cr_assert_gt(next.number, batch.number);
}

Test(outbox, of_several_events_one_of_which_is_refused_each_goes_alone_and_that_one_is_set_aside)
{
    enum { EVENTS = 5, BAD = 3 };
    outbox_batch_t batch = a_batch();
    int left = EVENTS, gone = 0, aside = 0;

    begin(&batch, left, 10);
    cr_assert_not(outbox_batch_refuse(&batch), "it is not known which");
    cr_assert(outbox_batch_end(&batch));
    while (left > 0) {
        begin(&batch, left, 10);
        cr_assert_eq(batch.count, 1);
        if (gone + aside == BAD) {
            cr_assert(outbox_batch_refuse(&batch));
            aside++;
        } else {
            gone++;
        }
        left--;
        cr_assert_eq(outbox_batch_end(&batch), left > 0, "%d left", left);
    }
    cr_assert_eq(aside, 1);
    begin(&batch, EVENTS, 10);
    cr_assert_eq(batch.count, EVENTS, "those that come later go together again");
}

Test(outbox, one_that_is_refused_while_events_go_alone_does_not_begin_that_anew)
{
    outbox_batch_t batch = a_batch();

    begin(&batch, 2, 10);
    outbox_batch_refuse(&batch);
    outbox_batch_end(&batch);
    begin(&batch, 2, 10);
    cr_assert(outbox_batch_refuse(&batch));
    cr_assert(outbox_batch_end(&batch));
    begin(&batch, 1, 10);
    cr_assert_not(outbox_batch_end(&batch), "both had their turn");
    begin(&batch, 2, 10);
    cr_assert_eq(batch.count, 2);
}

/* ---- records ---- */

Test(outbox, an_event_is_a_record_of_its_type_and_its_envelope)
{
    msgpack_sbuffer body;

    msgpack_sbuffer_init(&body);
    cr_assert_eq(outbox_batch_add("{\"event_type\":\"a.v0\"}", &body), 0);
    cr_assert_eq(body.size, 5 + 4 + 17);
    cr_assert_eq(memcmp(body.data, "\4\0\0\0\21a.v0\201\252event_type\244a.v0", body.size), 0);
    msgpack_sbuffer_destroy(&body);
}

Test(outbox, what_is_no_event_is_refused_and_leaves_the_batch_as_it_is)
{
    char longer[256];
    const char *const bad[] = {
        "", "nonsense", "[]", "{}", "{\"event_type\":1}", "{\"event_type\":\"\"}", longer};
    msgpack_sbuffer body;

    snprintf(longer, sizeof(longer), "{\"event_type\":\"%0*d\"}", OUTBOX_TYPE_MAX + 1, 0);
    msgpack_sbuffer_init(&body);
    for (size_t i = 0; i < LEN(bad); i++)
        cr_assert_eq(outbox_batch_add(bad[i], &body), -EBADMSG, "%zu", i);
    cr_assert_eq(body.size, 0);
    msgpack_sbuffer_destroy(&body);
}
