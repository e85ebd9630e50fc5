/* Batches that wait: keys by turns, and what each may take. */
#include "services/events/pending.h"

#include <criterion/criterion.h>
#include <string.h>

/* [identity][header][body]; its identity says whose it is. */
static void add_events(pending_t *self, const char *id, size_t bytes, int64_t events)
{
    zmsg_t *batch = zmsg_new();
    zframe_t *body = zframe_new(NULL, bytes);

    zmsg_addstr(batch, id);
    zmsg_addstr(batch, "header");
    zmsg_append(batch, &body);
    pending_add(self, id, events, &batch);
    cr_assert_null(batch);
}

static void add(pending_t *self, const char *id, size_t bytes)
{
    add_events(self, id, bytes, 1);
}

typedef struct job {
    int of_a, of_b, of_others, first_b; /* first_b: how many are before it */
} job_t;

static job_t take_job(pending_t *self)
{
    zmsg_t *msg = pending_take_job(self);
    job_t job = {.first_b = -1};
    size_t i = 0;

    for (zframe_t *frame = msg ? zmsg_first(msg) : NULL; frame; frame = zmsg_next(msg), i++) {
        if (i % 3)
            continue;
        if (zframe_streq(frame, "b") && job.first_b < 0)
            job.first_b = (int)i / 3;
        job.of_a += zframe_streq(frame, "a");
        job.of_b += zframe_streq(frame, "b");
        job.of_others += !zframe_streq(frame, "a") && !zframe_streq(frame, "b");
    }
    zmsg_destroy(&msg);
    return job;
}

Test(pending, one_key_alone_has_the_whole_job)
{
    pending_t *self = pending_new();

    for (int i = 0; i < JOB_BATCHES + 5; i++)
        add(self, "a", 10);
    cr_assert_eq(take_job(self).of_a, JOB_BATCHES);
    cr_assert_eq(take_job(self).of_a, 5);
    cr_assert_eq(pending_bytes(self), 0);
    cr_assert_null(pending_take_job(self));
    pending_destroy(&self);
}

/* By number: what one key has sent before is not done before what the others send. */
Test(pending, a_flood_of_small_batches_delays_nobody_by_more_than_a_job)
{
    pending_t *self = pending_new();
    job_t job;

    for (int i = 0; i < 100 * JOB_BATCHES && pending_has_room(self, "a"); i++)
        add(self, "a", 1);
    for (int i = 0; i < 100; i++)
        add(self, "b", 40000);
    add(self, "c", 10);
    job = take_job(self);
    cr_assert_eq(job.of_b, 100, "all that fits beside the other's share");
    cr_assert_eq(job.of_others, 1);
    cr_assert_eq(job.of_a, JOB_BATCHES - 101, "and nothing of the job is given away");
    cr_assert_leq(job.first_b, 2);
    for (int i = 0; i < 1000; i++)
        add(self, "b", 10);
    job = take_job(self);
    cr_assert_eq(job.of_a, JOB_BATCHES / 2);
    cr_assert_eq(job.of_b, JOB_BATCHES / 2, "halves where both have enough");
    pending_destroy(&self);
}

/* And by bytes. */
Test(pending, large_batches_of_one_key_leave_the_job_to_the_others)
{
    pending_t *self = pending_new();
    job_t job;

    for (int i = 0; i < 9; i++)
        add(self, "a", 3 << 20);
    for (int i = 0; i < 2 * JOB_BATCHES; i++)
        add(self, "b", 1000);
    job = take_job(self);
    cr_assert_eq(job.of_a, 2, "until it has its share");
    cr_assert_eq(job.of_b, JOB_BATCHES - 2);
    pending_destroy(&self);
}

Test(pending, many_keys_all_have_their_turn)
{
    enum { KEYS = 600 };
    pending_t *self = pending_new();
    char id[16];
    int jobs = 0;

    for (int i = 0; i < 3 * KEYS; i++) {
        snprintf(id, sizeof(id), "key%d", i % KEYS);
        add(self, id, 10);
    }
    for (int i = 0; i < 2000; i++)
        add(self, "a", 10);
    add(self, "b", 10);
    while (take_job(self).of_b == 0)
        cr_assert_lt(++jobs, 3, "each once, then each again");
    pending_destroy(&self);
}

/* A batch takes more here than its bytes. */
Test(pending, small_batches_take_room_too)
{
    pending_t *self = pending_new();
    int n = 0;

    for (; pending_has_room(self, "a"); n++)
        add(self, "a", 0);
    cr_assert_leq(n, PENDING_KEY_BYTES / PENDING_OVERHEAD);
    cr_assert(pending_has_room(self, "b"));
    for (; pending_has_room(self, "b"); n++)
        add(self, "b", 1 << 20);
    while (!pending_is_full(self))
        add(self, "c", 1 << 20);
    cr_assert_leq(pending_bytes(self), PENDING_BYTES + (2 << 20));
    cr_assert_not(pending_has_room(self, "d"));
    while (pending_bytes(self) >= PENDING_KEY_BYTES) {
        cr_assert(pending_is_full(self), "until little is left");
        take_job(self);
    }
    cr_assert_not(pending_is_full(self));
    cr_assert(pending_has_room(self, "d"));
    pending_destroy(&self);
}

/* Where nobody else has anything the share of a job would keep nobody's place free. */
Test(pending, the_share_of_a_job_holds_while_another_key_has_something)
{
    pending_t *self = pending_new();
    job_t job;

    for (int i = 0; i < 30; i++)
        add(self, "a", 1 << 20);
    cr_assert_eq(take_job(self).of_a, 30);
    for (int i = 0; i < 30; i++)
        add(self, "a", 1 << 20);
    add(self, "b", 10);
    job = take_job(self);
    cr_assert_eq(job.of_b, 1);
    cr_assert_eq(job.of_a, 4, "in the whole of a job that another key has a part of");
    cr_assert_eq(take_job(self).of_a, 26);
    pending_destroy(&self);
}

Test(pending, a_key_that_was_full_has_no_room_until_little_of_its_own_is_left)
{
    pending_t *self = pending_new();
    int jobs = 0;

    while (pending_has_room(self, "a"))
        add(self, "a", 1 << 20);
    cr_assert_eq(pending_room(self, "a"), 0);
    cr_assert(pending_has_room(self, "b"));
    for (; !pending_has_room(self, "a"); jobs++) {
        add(self, "b", 10); /* so that the job is shared */
        cr_assert_eq(take_job(self).of_b, 1);
        cr_assert(pending_has_room(self, "b"));
    }
    cr_assert_eq(jobs, 8, "after %d jobs", jobs);
    cr_assert_gt(pending_room(self, "a"), PENDING_KEY_BYTES - PENDING_KEY_LITTLE);
    pending_destroy(&self);
}

/* An event of a few bytes is an envelope of a thousand or two for subscribers. */
Test(pending, a_job_has_so_many_events_however_small_they_are)
{
    enum { EVENTS = 4096 };
    pending_t *self = pending_new();
    job_t job;

    for (int i = 0; i < 100; i++)
        add_events(self, "a", 80000, EVENTS);
    cr_assert_eq(take_job(self).of_a, JOB_EVENTS / EVENTS);
    add(self, "b", 10);
    job = take_job(self);
    cr_assert_eq(job.of_b, 1);
    cr_assert_eq(job.of_a, JOB_KEY_EVENTS / EVENTS);
    pending_destroy(&self);
}
