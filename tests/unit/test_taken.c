/* How much of an answer its client has taken. */
#include "services/edge/http/taken.h"

#include <criterion/criterion.h>

#include <stdlib.h>

enum { MB = 1000000, KB = 1000 };

static taken_t answer;

static void an_answer(void)
{
    taken_begin(&answer, 0);
}

TestSuite(taken, .init = an_answer);

Test(taken, what_stands_in_the_socket_is_not_taken)
{
    taken_measure(&answer, 3 * MB, 3 * MB, 3 * MB);
    cr_assert_eq(taken_bytes(&answer), 0);
    taken_measure(&answer, 3 * MB, 3 * MB, 3 * MB);
    cr_assert_eq(taken_bytes(&answer), 0, "nor because time passes");
}

Test(taken, what_leaves_the_socket_is_taken_while_the_socket_accepts_nothing)
{
    taken_measure(&answer, 3 * MB, 3 * MB, 3 * MB);
    for (int second = 1; second <= 60; second++) {
        taken_measure(&answer, 3 * MB, 3 * MB, 3 * MB - second * 10 * KB);
        cr_assert_eq(taken_bytes(&answer), second * 10 * KB);
        cr_assert_eq(taken_of_connection(&answer), second * 10 * KB);
    }
}

Test(taken, of_an_answer_that_is_alone_all_that_is_not_in_the_socket_is_taken)
{
    int64_t sent = 0;

    for (int i = 1; i <= 100; i++) {
        sent += rand() % MB;
        int64_t held = rand() % (128 * KB);
        if (held > answer.held + sent - answer.sent)
            held = answer.held + sent - answer.sent;
        taken_measure(&answer, sent, sent, held);
        cr_assert_leq(llabs(taken_bytes(&answer) - (sent - held)), i, "but for rounding");
    }
}

Test(taken, answers_that_share_a_connection_share_what_leaves_its_socket)
{
    taken_t other;

    taken_begin(&other, 0);
    taken_measure(&answer, 30 * KB, 120 * KB, 120 * KB);
    taken_measure(&other, 90 * KB, 120 * KB, 120 * KB);
    taken_measure(&answer, 30 * KB, 120 * KB, 80 * KB);
    taken_measure(&other, 90 * KB, 120 * KB, 80 * KB);
    cr_assert_eq(taken_bytes(&answer), 10 * KB);
    cr_assert_eq(taken_bytes(&other), 30 * KB);
    taken_measure(&answer, 30 * KB, 120 * KB, 0);
    cr_assert_eq(taken_bytes(&answer), 30 * KB, "nothing is left of it");
}

Test(taken, an_answer_whose_window_is_shut_takes_nothing_of_what_others_do)
{
    taken_measure(&answer, 100, 1 * MB, 0);
    cr_assert_eq(taken_bytes(&answer), 100);
    for (int i = 2; i < 20; i++)
        taken_measure(&answer, 100, i * MB, 50 * KB);
    cr_assert_eq(taken_bytes(&answer), 100);
    cr_assert_gt(taken_of_connection(&answer), 18 * MB);
}

Test(taken, what_was_written_before_an_answer_began_is_not_its)
{
    taken_begin(&answer, 5 * MB);
    taken_measure(&answer, 10 * KB, 5 * MB + 10 * KB, 100 * KB);
    cr_assert_eq(taken_bytes(&answer), 0, "it stands behind the others");
    taken_measure(&answer, 10 * KB, 5 * MB + 10 * KB, 50 * KB);
    cr_assert_eq(taken_bytes(&answer), 5 * KB);
}

Test(taken, it_is_never_less_than_before_and_never_more_than_was_sent)
{
    int64_t sent = 0, written = 0, before = 0;

    for (int i = 0; i < 10000; i++) {
        sent += rand() % 3 ? 0 : rand() % (64 * KB);
        written += rand() % (256 * KB) - 1000;
        taken_measure(&answer, sent, written, rand() % (4 * MB));
        cr_assert_geq(taken_bytes(&answer), before);
        cr_assert_leq(taken_bytes(&answer), sent);
        before = taken_bytes(&answer);
    }
}

Test(taken, a_head_that_is_not_whole_is_no_byte_of_the_answer)
{
    taken_measure(&answer, -300, 500, 200);
    cr_assert_eq(taken_bytes(&answer), 0);
    taken_measure(&answer, 1000, 2000, 0);
    cr_assert_eq(taken_bytes(&answer), 1000);
}

Test(taken, an_answer_of_terabytes_is_measured_as_any_other)
{
    const int64_t sent = INT64_C(50) << 40;

    taken_measure(&answer, sent, sent, 4 * MB);
    cr_assert_leq(llabs(taken_bytes(&answer) - (sent - 4 * MB)), 4 * KB);
}
