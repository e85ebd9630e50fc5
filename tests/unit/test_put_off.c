/* Producers whose batches there was no room for: who is told when, and what comes from them
 * meanwhile. */
#include "services/events/put_off.h"

#include <criterion/criterion.h>
#include <string.h>

enum { MIB = 1 << 20 };

typedef struct bench {
    pending_t *pending;
    put_off_t *put_off;
    int64_t now_ms;
} bench_t;

static bench_t begin(void)
{
    bench_t self = {pending_new(), put_off_new(), 1000};

    cr_assert(self.pending && self.put_off);
    return self;
}

static void end(bench_t *self)
{
    pending_destroy(&self->pending);
    put_off_destroy(&self->put_off);
}

/* Is the batch put off? If not it waits for the database from now on. */
static bool put_off(bench_t *self, const char *id, const char *worker, int64_t seq, bool oldest)
{
    batch_t batch = {.seq = seq, .count = 1, .oldest = oldest};
    zframe_t *identity = zframe_new(worker, strlen(worker));
    zframe_t *body = zframe_new(NULL, MIB);
    zmsg_t *msg = zmsg_new();
    bool off;

    snprintf(batch.producer, sizeof(batch.producer), "%s", worker);
    off = put_off_batch(self->put_off, self->pending, identity, id, &batch, MIB, self->now_ms);
    zmsg_append(msg, &identity);
    zmsg_addstr(msg, "header");
    zmsg_append(msg, &body);
    if (off)
        zmsg_destroy(&msg);
    else
        pending_add(self->pending, id, 1, &msg);
    return off;
}

/* Until a key has no room. */
static void fill(bench_t *self, const char *id)
{
    for (int64_t seq = 1; pending_has_room(self->pending, id); seq++)
        cr_assert_not(put_off(self, id, "filler", seq, false));
}

static void take_all(bench_t *self)
{
    for (zmsg_t *job; (job = pending_take_job(self->pending));)
        zmsg_destroy(&job);
    cr_assert_eq(pending_bytes(self->pending), 0);
}

/* Who is told now, as one text: "a b ". */
static const char *told(bench_t *self)
{
    static char text[1024];

    *text = '\0';
    for (zframe_t *one; (one = put_off_tell(self->put_off, self->pending, self->now_ms));)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "%.*s ", (int)zframe_size(one),
                 (const char *)zframe_data(one));
    return text;
}

Test(put_off, is_told_once_when_its_key_has_room)
{
    bench_t self = begin();

    cr_assert_str_eq(told(&self), "");
    fill(&self, "k");
    cr_assert(put_off(&self, "k", "a", 5, false));
    cr_assert_not(put_off(&self, "other", "b", 1, false), "another key has room");
    for (int i = 0; i < 3; i++)
        cr_assert_str_eq(told(&self), "");
    take_all(&self);
    cr_assert_str_eq(told(&self), "a ");
    cr_assert_str_eq(told(&self), "");
    end(&self);
}

Test(put_off, what_comes_behind_a_missing_batch_takes_no_room)
{
    bench_t self = begin();

    fill(&self, "k");
    cr_assert(put_off(&self, "k", "a", 5, false));
    take_all(&self);
    cr_assert(put_off(&self, "k", "a", 6, false), "it was not told yet");
    cr_assert_not(put_off(&self, "k", "b", 6, false), "another connection may");
    cr_assert_str_eq(told(&self), "a ");
    cr_assert(put_off(&self, "k", "a", 7, false), "it was sent before it heard");
    cr_assert_not(put_off(&self, "k", "a", 4, false), "what is before it may have to come again");
    cr_assert_not(put_off(&self, "k", "a", 5, false));
    cr_assert_not(put_off(&self, "k", "a", 6, false));
    cr_assert_not(put_off(&self, "k", "a", 7, false));
    end(&self);
}

Test(put_off, a_producer_that_lost_what_was_missing_goes_on_with_the_oldest_that_it_has)
{
    bench_t self = begin();

    fill(&self, "k");
    cr_assert(put_off(&self, "k", "a", 5, false));
    take_all(&self);
    cr_assert_str_eq(told(&self), "a ");
    cr_assert(put_off(&self, "k", "a", 9, false));
    cr_assert_not(put_off(&self, "k", "a", 9, true));
    end(&self);
}

Test(put_off, no_more_are_told_than_there_is_room_for)
{
    bench_t self = begin();

    fill(&self, "k");
    for (int64_t seq = 1; seq <= 20; seq++)
        for (const char *worker = "a\0b\0c\0"; *worker; worker += 2)
            cr_assert(put_off(&self, "k", worker, seq, false));
    cr_assert(put_off(&self, "k", "d", 1, false));
    for (int64_t seq = 1; seq <= 20; seq++)
        cr_assert(put_off(&self, "k", "d", 1, false), "again: it counts once");
    take_all(&self);
    cr_assert_str_eq(told(&self), "a d ", "20 and 1 MiB of 32");
    for (int64_t seq = 1; seq <= 15; seq++)
        cr_assert_not(put_off(&self, "k", "a", seq, false));
    cr_assert_str_eq(told(&self), "", "5 and 1 are still to come");
    for (int64_t seq = 16; seq <= 20; seq++)
        cr_assert_not(put_off(&self, "k", "a", seq, false));
    cr_assert_not(put_off(&self, "k", "d", 1, false));
    take_all(&self);
    cr_assert_str_eq(told(&self), "b ");
    end(&self);
}

/* A connection that is no more keeps nobody waiting. */
Test(put_off, who_says_nothing_is_waited_for_a_moment)
{
    bench_t self = begin();

    fill(&self, "k");
    for (int64_t seq = 1; seq <= 20; seq++)
        for (const char *worker = "a\0b\0"; *worker; worker += 2)
            cr_assert(put_off(&self, "k", worker, seq, false));
    take_all(&self);
    cr_assert_str_eq(told(&self), "a ");
    self.now_ms += PUT_OFF_TOLD_MS - 1;
    cr_assert_str_eq(told(&self), "");
    self.now_ms++;
    cr_assert_str_eq(told(&self), "b ");
    cr_assert_not(put_off(&self, "k", "a", 30, false), "nothing is known of it any more");
    end(&self);
}

Test(put_off, one_that_has_more_than_fits_is_told_and_put_off_again)
{
    bench_t self = begin();
    int64_t seq = 1;

    fill(&self, "k");
    for (; seq <= 100; seq++)
        cr_assert(put_off(&self, "k", "a", seq, false));
    take_all(&self);
    cr_assert_str_eq(told(&self), "a ");
    for (seq = 1; !put_off(&self, "k", "a", seq, false); seq++)
        cr_assert_lt(seq, 40);
    cr_assert_str_eq(told(&self), "", "until there is room");
    take_all(&self);
    cr_assert(put_off(&self, "k", "a", seq + 1, false));
    cr_assert_str_eq(told(&self), "a ");
    cr_assert_not(put_off(&self, "k", "a", seq, false));
    end(&self);
}

/* What one key takes, others have. */
Test(put_off, so_many_of_a_key_are_remembered_and_no_more)
{
    bench_t self = begin();
    char name[16];
    int n = 0;

    fill(&self, "k");
    fill(&self, "other");
    for (int i = 0; i < PUT_OFF_MAX + 10; i++) {
        snprintf(name, sizeof(name), "w%d", i);
        cr_assert(put_off(&self, "k", name, 1, true));
    }
    cr_assert(put_off(&self, "other", "honest", 1, true));
    take_all(&self);
    for (int i = 0; i < 2 * PUT_OFF_OF_KEY; i++) {
        for (zframe_t *one; (one = put_off_tell(self.put_off, self.pending, self.now_ms)); n++)
            if (zframe_streq(one, "honest"))
                n += PUT_OFF_MAX;
        self.now_ms += PUT_OFF_TOLD_MS;
    }
    cr_assert_eq(n, PUT_OFF_MAX + PUT_OFF_OF_KEY + 1);
    cr_assert_not(put_off(&self, "k", "w1", 1, true));
    end(&self);
}
