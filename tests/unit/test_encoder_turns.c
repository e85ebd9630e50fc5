/* Whose turn it is to encode. */
#include "services/edge/modules/encoder_turns.h"

#include <criterion/criterion.h>

static encoder_turns_t turns;

/* As the worker does while there is more of each body: who had a turn waits for the next one. */
static void run(encoder_turn_t **ret_turns, int count, const uint32_t (*whose)[2],
                const encoder_turn_t *all)
{
    for (int i = 0; i < count; i++) {
        encoder_turn_t *turn = encoder_turns_next(&turns);

        ret_turns[i] = turn;
        encoder_turns_wait(&turns, turn, whose[turn - all][0], whose[turn - all][1]);
    }
}

Test(encoder_turns, one_body_of_an_account_has_every_other_turn_beside_hundreds_of_another)
{
    enum { MANY = 240, TURNS = 100 };
    static uint32_t whose[MANY + 1][2];
    encoder_turn_t all[MANY + 1] = {{0}}, *had[TURNS];
    int own = 0;

    for (int i = 0; i <= MANY; i++) {
        whose[i][0] = i == MANY ? 8 : 7;
        whose[i][1] = i == MANY ? 80 : 70;
        encoder_turns_wait(&turns, &all[i], whose[i][0], whose[i][1]);
    }
    run(had, TURNS, whose, all);
    for (int i = 0; i < TURNS; i++)
        own += had[i] == &all[MANY];
    cr_assert_eq(own, TURNS / 2, "%d of %d turns", own, TURNS);
}

Test(encoder_turns, clients_of_an_account_have_as_many_as_each_other)
{
    enum { MANY = 50, TURNS = 90 };
    static uint32_t whose[MANY + 2][2];
    encoder_turn_t all[MANY + 2] = {{0}}, *had[TURNS];
    int own[3] = {0};

    for (int i = 0; i < MANY + 2; i++) {
        whose[i][0] = 7;
        whose[i][1] = 70 + (i < MANY ? 0 : i - MANY + 1);
        encoder_turns_wait(&turns, &all[i], whose[i][0], whose[i][1]);
    }
    run(had, TURNS, whose, all);
    for (int i = 0; i < TURNS; i++)
        own[whose[had[i] - all][1] - 70]++;
    for (int i = 0; i < 3; i++)
        cr_assert_eq(own[i], TURNS / 3, "client %d had %d", i, own[i]);
}

Test(encoder_turns, a_clients_bodies_have_turns_in_the_order_in_which_they_came)
{
    encoder_turn_t all[3] = {{0}};

    for (int i = 0; i < 3; i++)
        encoder_turns_wait(&turns, &all[i], 7, 70);
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(encoder_turns_first(&turns), &all[i]);
        cr_assert_eq(encoder_turns_next(&turns), &all[i]);
        cr_assert_not(all[i].waits);
    }
    cr_assert_null(encoder_turns_next(&turns));
    cr_assert_null(encoder_turns_first(&turns));
}

Test(encoder_turns, hashes_that_fall_together_share_a_line_and_lose_nothing)
{
    encoder_turn_t all[3] = {{0}};

    encoder_turns_wait(&turns, &all[0], 7, 70);
    encoder_turns_wait(&turns, &all[1], 8, 70 + ENCODER_CLIENTS); /* the line of account 7 */
    encoder_turns_wait(&turns, &all[2], 8, 80);
    cr_assert_eq(encoder_turns_next(&turns), &all[0]);
    cr_assert_eq(encoder_turns_next(&turns), &all[2], "account 8 by its other client");
    cr_assert_eq(encoder_turns_next(&turns), &all[1]);
    encoder_turns_wait(&turns, &all[1], 8, 70);
    encoder_turns_leave(&turns, &all[1]);
    cr_assert_null(encoder_turns_next(&turns));
}

Test(encoder_turns, whoever_leaves_is_forgotten_and_may_leave_again)
{
    encoder_turn_t all[4] = {{0}};

    for (int i = 0; i < 4; i++)
        encoder_turns_wait(&turns, &all[i], 7 + (uint32_t)i / 2, 70 + (uint32_t)i);
    encoder_turns_leave(&turns, &all[2]);
    encoder_turns_leave(&turns, &all[2]);
    encoder_turns_leave(&turns, &all[0]);
    cr_assert_eq(encoder_turns_next(&turns), &all[1]);
    cr_assert_eq(encoder_turns_next(&turns), &all[3]);
    cr_assert_null(encoder_turns_next(&turns));
    encoder_turns_leave(&turns, &all[3]);
}
