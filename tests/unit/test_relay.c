/* Which copy of postern-identity has which question of a worker's. Time is set. */
#include "services/edge/control/relay.h"
#include "common/base/cleanup.h"
#include "common/base/err.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

enum { COPIES = 3, SENT_MAX = 64 };

typedef struct world {
    relay_t *relay;
    bool is_there[COPIES];
    struct {
        int copy;
        char id[RELAY_ID_SIZE];
        uint64_t number;
        int64_t left_ms;
        size_t len;
    } sent[SENT_MAX];
    int sent_count;
    struct {
        uint64_t number;
        int code;
        size_t len;
    } answers[SENT_MAX];
    int answer_count, ids;
    int64_t now_ms;
} world_t;

static bool is_there(void *context, int copy)
{
    return ((world_t *)context)->is_there[copy];
}

static bool send_question(void *context, int copy, const relay_question_t *question,
                          int64_t left_ms)
{
    world_t *world = context;
    int i = world->sent_count++;

    cr_assert(i < SENT_MAX);
    world->sent[i].copy = copy;
    world->sent[i].number = question->number;
    world->sent[i].left_ms = left_ms;
    world->sent[i].len = question->len;
    snprintf(world->sent[i].id, RELAY_ID_SIZE, "%s", question->id);
    return true;
}

static void make_id(void *context, const ask_head_t *head, char id[RELAY_ID_SIZE])
{
    (void)head;
    snprintf(id, RELAY_ID_SIZE, "op_%d", ++((world_t *)context)->ids);
}

static void take_answer(void *context, const ask_told_t *told, const void *body, size_t len)
{
    world_t *world = context;
    int i = world->answer_count++;

    (void)body;
    cr_assert(i < SENT_MAX);
    world->answers[i].number = told->number;
    world->answers[i].code = told->code;
    world->answers[i].len = len;
}

static void begin(world_t *world, int copies)
{
    static const relay_ports_t ports = {is_there, send_question, make_id, take_answer};

    *world = (world_t){.is_there = {true, true, true}, .now_ms = 100000};
    world->relay = relay_new(copies, &ports, world);
}

static void end(world_t *world)
{
    relay_destroy(&world->relay);
}

static void ask(world_t *world, uint64_t number, const char *verb, int64_t left_ms)
{
    ask_head_t head;

    cr_assert(ask_head_init(&head, number, verb, "ac_one", 6, 4));
    head.left_ms = left_ms;
    relay_take(world->relay, &head, "body", 4, world->now_ms);
}

static void answer(world_t *world, int sent, int code)
{
    uint64_t number = relay_heard(world->relay, world->sent[sent].copy, world->sent[sent].id,
                                  strlen(world->sent[sent].id), world->now_ms);
    ask_told_t told;

    ask_told_init(&told, number, code, "", 0);
    relay_reply(world->relay, world->sent[sent].copy, &told, "map", 3, world->now_ms);
}

static void wait_ms(world_t *world, int64_t ms)
{
    world->now_ms += ms;
    relay_tick(world->relay, world->now_ms);
}

Test(relay, a_question_goes_to_one_copy_and_its_answer_back)
{
    world_t world;

    begin(&world, COPIES);
    ask(&world, 7, "sign_in.begin", 5000);
    cr_assert_eq(world.sent_count, 1);
    cr_assert_eq(world.sent[0].number, 7);
    cr_assert_eq(world.sent[0].left_ms, 5000);
    cr_assert_eq(world.sent[0].len, 4);
    answer(&world, 0, 0);
    cr_assert_eq(world.answer_count, 1);
    cr_assert_eq(world.answers[0].number, 7);
    cr_assert_eq(world.answers[0].len, 3);
    answer(&world, 0, 0);
    cr_assert_eq(world.answer_count, 1, "an answer that comes twice is one");
    cr_assert_eq(relay_count(world.relay), 0);
    end(&world);
}

Test(relay, copies_take_turns)
{
    world_t world;

    begin(&world, COPIES);
    world.is_there[1] = false;
    for (uint64_t i = 1; i <= 4; i++)
        ask(&world, i, "session.check", 5000);
    cr_assert_eq(world.sent[0].copy, 0);
    cr_assert_eq(world.sent[1].copy, 2, "one that is not connected is left out");
    cr_assert_eq(world.sent[2].copy, 0);
    cr_assert_eq(world.sent[3].copy, 2);
    end(&world);
}

Test(relay, without_an_answer_another_copy_is_asked_under_the_same_id)
{
    world_t world;

    begin(&world, 2);
    ask(&world, 1, "session.check", 5000);
    wait_ms(&world, RELAY_RESEND_MS - 1);
    cr_assert_eq(world.sent_count, 1);
    wait_ms(&world, 1);
    cr_assert_eq(world.sent_count, 2);
    cr_assert_neq(world.sent[0].copy, world.sent[1].copy);
    cr_assert_str_eq(world.sent[0].id, world.sent[1].id);
    cr_assert_eq(world.sent[1].left_ms, 5000 - RELAY_RESEND_MS);
    wait_ms(&world, RELAY_RESEND_MS);
    cr_assert_eq(world.sent_count, 2, "there is no third");
    answer(&world, 0, 0);
    answer(&world, 1, 0);
    cr_assert_eq(world.answer_count, 1, "whoever answers first");
    end(&world);
}

Test(relay, a_copy_that_let_a_question_pass_is_the_last_choice_until_it_is_heard)
{
    world_t world;

    begin(&world, 2);
    ask(&world, 1, "session.check", 9000);
    wait_ms(&world, RELAY_RESEND_MS);
    answer(&world, 1, 0);
    ask(&world, 2, "session.check", 9000);
    ask(&world, 3, "session.check", 9000);
    cr_assert_eq(world.sent[2].copy, 1);
    cr_assert_eq(world.sent[3].copy, 1);
    relay_heard(world.relay, 0, "x", 1, world.now_ms);
    ask(&world, 4, "session.check", 9000);
    cr_assert_eq(world.sent[4].copy, 0);
    end(&world);
}

Test(relay, the_last_choice_is_a_choice)
{
    world_t world;

    begin(&world, 2);
    ask(&world, 1, "session.check", 9000);
    wait_ms(&world, RELAY_RESEND_MS);
    world.is_there[1] = false;
    ask(&world, 2, "session.check", 9000);
    cr_assert_eq(world.sent[2].copy, 0);
    end(&world);
}

Test(relay, what_counts_once_stays_with_its_copy)
{
    static const char *const verbs[] = {"sign_in.callback", "sign_in.redeem", "sign_in.saml_logout",
                                        "sign_in.logout"};

    for (size_t i = 0; i < LEN(verbs); i++) {
        world_t world;

        begin(&world, 2);
        ask(&world, 1, verbs[i], 30000);
        wait_ms(&world, 20000);
        cr_assert_eq(world.sent_count, 1);
        ask(&world, 2, "session.check", 1000);
        ask(&world, 3, "session.check", 1000);
        cr_assert_eq(world.sent[2].copy, 0, "a slow provider says nothing of the copy");
        answer(&world, 0, ERR_MAINTENANCE);
        cr_assert_eq(world.answers[0].code, ERR_MAINTENANCE);
        end(&world);
    }
}

Test(relay, what_counts_once_goes_first_to_copies_that_let_nothing_of_its_kind_pass)
{
    static const char *const verbs[] = {"sign_in.callback", "sign_in.redeem", "sign_in.saml_logout",
                                        "sign_in.logout"};

    for (size_t i = 0; i < LEN(verbs); i++) {
        world_t world;

        begin(&world, 2);
        ask(&world, 1, verbs[i], 30000);
        wait_ms(&world, RELAY_RESEND_MS);
        for (uint64_t number = 2; number <= 4; number++) {
            ask(&world, number, verbs[i], 30000);
            cr_assert_eq(world.sent[number - 1].copy, 1);
            answer(&world, (int)number - 1, 0);
        }
        world.is_there[1] = false;
        ask(&world, 5, verbs[i], 30000);
        cr_assert_eq(world.sent[4].copy, 0, "the last choice is a choice");
        world.is_there[1] = true;
        answer(&world, 0, 0);
        ask(&world, 6, verbs[i], 30000);
        ask(&world, 7, verbs[i], 30000);
        cr_assert_neq(world.sent[5].copy, world.sent[6].copy, "it was heard");
        end(&world);
    }
}

Test(relay, a_copy_that_waits_for_a_provider_is_better_than_one_that_says_nothing_of_a_session)
{
    world_t world;

    begin(&world, 2);
    ask(&world, 1, "sign_in.callback", 30000);
    ask(&world, 2, "session.check", 1500);
    cr_assert_eq(world.sent[1].copy, 1);
    world.is_there[0] = false; /* so that the check stays with copy 1 */
    wait_ms(&world, RELAY_RESEND_MS);
    world.is_there[0] = true;
    ask(&world, 3, "sign_in.callback", 30000);
    ask(&world, 4, "sign_in.callback", 30000);
    cr_assert_eq(world.sent[2].copy, 0);
    cr_assert_eq(world.sent[3].copy, 0);
    end(&world);
}

Test(relay, where_the_connection_breaks_another_copy_is_asked_at_once)
{
    world_t world;

    begin(&world, 2);
    ask(&world, 1, "sign_in.redeem", 5000);
    ask(&world, 2, "session.check", 5000);
    world.is_there[0] = false;
    relay_lost(world.relay, 0, world.now_ms);
    cr_assert_eq(world.sent_count, 3);
    cr_assert_eq(world.sent[2].copy, 1);
    cr_assert_str_eq(world.sent[2].id, world.sent[0].id);
    answer(&world, 0, 0);
    cr_assert_eq(world.answer_count, 1, "and what was answered before counts");
    end(&world);
}

Test(relay, the_only_copy_is_waited_for_a_moment)
{
    world_t world;

    begin(&world, 1);
    ask(&world, 1, "session.check", 5000);
    world.is_there[0] = false;
    relay_lost(world.relay, 0, world.now_ms);
    wait_ms(&world, RELAY_HOPE_MS - 1);
    cr_assert_eq(world.answer_count, 0);
    world.is_there[0] = true;
    wait_ms(&world, 0);
    cr_assert_eq(world.sent_count, 2, "it is back");
    world.is_there[0] = false;
    relay_lost(world.relay, 0, world.now_ms);
    wait_ms(&world, RELAY_HOPE_MS);
    cr_assert_eq(world.answers[0].code, RELAY_LATE, "perhaps it was done");
    end(&world);
}

Test(relay, where_no_copy_is_connected_nobody_is_said_to_have_it)
{
    world_t world;

    begin(&world, 1);
    world.is_there[0] = false;
    ask(&world, 1, "session.check", 5000);
    cr_assert_eq(world.answer_count, 0);
    wait_ms(&world, RELAY_HOPE_MS);
    cr_assert_eq(world.answers[0].code, RELAY_NOBODY);
    cr_assert_eq(relay_count(world.relay), 0);
    end(&world);
}

Test(relay, a_question_is_over_at_its_time)
{
    world_t world;

    begin(&world, 1);
    ask(&world, 1, "sign_in.callback", 3000);
    wait_ms(&world, 3000);
    cr_assert_eq(world.answers[0].code, RELAY_LATE);
    answer(&world, 0, 0);
    cr_assert_eq(world.answer_count, 1, "an answer that comes later is none");
    end(&world);
}

Test(relay, who_cannot_do_it_now_is_passed_over)
{
    world_t world;

    begin(&world, 2);
    ask(&world, 1, "session.check", 5000);
    answer(&world, 0, ERR_MAINTENANCE);
    cr_assert_eq(world.answer_count, 0);
    cr_assert_eq(world.sent[1].copy, 1);
    answer(&world, 1, ERR_BUSY);
    cr_assert_eq(world.answers[0].code, ERR_BUSY, "nor can the other one");
    ask(&world, 2, "session.check", 5000);
    answer(&world, 2, ERR_SESSION_GONE);
    cr_assert_eq(world.answers[1].code, ERR_SESSION_GONE);
    end(&world);
}

Test(relay, a_body_comes_in_parts)
{
    world_t world;
    ask_head_t head;

    begin(&world, 1);
    cr_assert(ask_head_init(&head, 5, "sign_in.begin", "", 0, 6));
    head.left_ms = 1000;
    relay_take(world.relay, &head, "abc", 3, world.now_ms);
    cr_assert_eq(world.sent_count, 0);
    head.offset = 3;
    relay_take(world.relay, &head, "def", 3, world.now_ms);
    cr_assert_eq(world.sent[0].len, 6);
    end(&world);
}

Test(relay, a_question_in_one_part_does_not_wait_for_a_long_one)
{
    world_t world;
    ask_head_t head;

    begin(&world, 1);
    cr_assert(ask_head_init(&head, 5, "sign_in.login", "", 0, 6));
    head.left_ms = 1000;
    relay_take(world.relay, &head, "abc", 3, world.now_ms);
    ask(&world, 6, "session.check", 1000);
    cr_assert_eq(world.sent_count, 1);
    cr_assert_eq(world.sent[0].number, 6);
    head.offset = 3;
    relay_take(world.relay, &head, "def", 3, world.now_ms);
    cr_assert_eq(world.sent_count, 2);
    cr_assert_eq(world.sent[1].number, 5);
    cr_assert_eq(world.sent[1].len, 6);
    end(&world);
}

Test(relay, a_body_with_a_missing_part_is_no_question)
{
    world_t world;
    ask_head_t head;

    begin(&world, 1);
    cr_assert(ask_head_init(&head, 5, "sign_in.begin", "", 0, 6));
    head.left_ms = 1000;
    relay_take(world.relay, &head, "abc", 3, world.now_ms);
    head.offset = 4;
    relay_take(world.relay, &head, "ef", 2, world.now_ms);
    cr_assert_eq(world.sent_count, 0);
    ask(&world, 6, "session.end", 1000);
    cr_assert_eq(world.sent_count, 1, "and the next one is whole");
    head.offset = 3;
    relay_take(world.relay, &head, "def", 3, world.now_ms);
    cr_assert_eq(world.sent_count, 1);
    end(&world);
}

Test(relay, more_than_there_is_room_for_is_answered)
{
    world_t world;

    begin(&world, 1);
    world.is_there[0] = false;
    for (uint64_t i = 1; i <= RELAY_QUESTIONS_MAX + 1; i++)
        ask(&world, i, "session.check", 100);
    cr_assert_eq(world.answer_count, 1);
    cr_assert_eq(world.answers[0].number, RELAY_QUESTIONS_MAX + 1);
    cr_assert_eq(world.answers[0].code, RELAY_NOBODY);
    end(&world);
}
