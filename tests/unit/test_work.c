/* Messages for whichever worker is free next. */
#include "common/base/cleanup.h"
#include "common/bus/work.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>

enum { TAKERS = 4, MESSAGES = 20000 };

static zmsg_t *message(int i)
{
    zmsg_t *msg = zmsg_new();

    zmsg_addstrf(msg, "%d", i);
    return msg;
}

static int number(zmsg_t *msg)
{
    _cleanup_(free_mem) char *text = zmsg_popstr(msg);

    zmsg_destroy(&msg);
    return atoi(text);
}

Test(work, is_bounded_and_gives_the_oldest_first)
{
    work_t *work = work_new(3, false);
    zmsg_t *msg;

    for (int i = 0; i < 3; i++) {
        msg = message(i);
        cr_assert_eq(work_put(work, &msg), 0);
        cr_assert_null(msg);
    }
    msg = message(3);
    cr_assert_eq(work_put(work, &msg), -EAGAIN);
    cr_assert_not_null(msg, "still the caller's");
    cr_assert_eq(work_waiting(work), 3);
    cr_assert_eq(number(work_take(work)), 0);
    cr_assert_eq(work_put(work, &msg), 0);
    for (int i = 1; i < 4; i++)
        cr_assert_eq(number(work_take(work)), i);
    msg = message(4);
    cr_assert_eq(work_put(work, &msg), 0);
    work_stop(work);
    cr_assert_null(work_take(work), "nobody gets any more");
    work_destroy(&work);
}

static void *put_and_wait(void *arg)
{
    zmsg_t *msg = message(1);
    bool put = work_put_wait(arg, &msg);

    zmsg_destroy(&msg);
    return put ? arg : NULL;
}

Test(work, what_there_is_no_room_for_waits_and_is_not_lost)
{
    work_t *work = work_new(1, true);
    zmsg_t *msg = message(0);
    pthread_t thread;
    void *put = NULL;

    cr_assert_eq(work_put(work, &msg), 0);
    cr_assert_eq(pthread_create(&thread, NULL, put_and_wait, work), 0);
    usleep(50000);
    cr_assert_eq(work_waiting(work), 1, "there is no room");
    cr_assert_eq(number(work_poll(work)), 0);
    pthread_join(thread, &put);
    cr_assert_not_null(put);
    cr_assert_eq(work_waiting(work), 1);
    /* nobody takes any more */
    cr_assert_eq(pthread_create(&thread, NULL, put_and_wait, work), 0);
    work_stop(work);
    pthread_join(thread, &put);
    cr_assert_null(put);
    cr_assert_eq(number(work_poll(work)), 1, "what was put stays");
    work_destroy(&work);
}

typedef struct taker {
    work_t *work;
    unsigned char *seen;
    pthread_t thread;
} taker_t;

static void *take_all(void *arg)
{
    taker_t *self = arg;
    zmsg_t *msg;

    while ((msg = work_take(self->work)))
        __atomic_fetch_add(&self->seen[number(msg)], 1, __ATOMIC_RELAXED);
    return NULL;
}

Test(work, each_message_goes_to_one_taker)
{
    work_t *work = work_new(MESSAGES, false);
    unsigned char *seen = calloc(MESSAGES, 1);
    taker_t takers[TAKERS];

    for (int i = 0; i < TAKERS; i++) {
        takers[i] = (taker_t){work, seen, 0};
        cr_assert_eq(pthread_create(&takers[i].thread, NULL, take_all, &takers[i]), 0);
    }
    for (int i = 0; i < MESSAGES; i++) {
        zmsg_t *msg = message(i);

        cr_assert_eq(work_put(work, &msg), 0);
    }
    while (work_waiting(work))
        sched_yield();
    work_stop(work);
    for (int i = 0; i < TAKERS; i++)
        pthread_join(takers[i].thread, NULL);
    for (int i = 0; i < MESSAGES; i++)
        cr_assert_eq(seen[i], 1, "message %d: %d times", i, seen[i]);
    free(seen);
    work_destroy(&work);
}

static bool is_readable(const work_t *work)
{
    struct pollfd item = {work_fd(work), POLLIN, 0};

    return poll(&item, 1, 0) == 1;
}

Test(work, is_readable_while_messages_wait)
{
    work_t *work = work_new(10, true);
    zmsg_t *msg;

    cr_assert_not(is_readable(work));
    cr_assert_null(work_poll(work));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 2; i++) {
            msg = message(i);
            cr_assert_eq(work_put(work, &msg), 0);
        }
        cr_assert(is_readable(work));
        cr_assert_eq(number(work_poll(work)), 0);
        cr_assert(is_readable(work), "one more");
        cr_assert_eq(number(work_poll(work)), 1);
        cr_assert_not(is_readable(work));
    }
    work_destroy(&work);
}
