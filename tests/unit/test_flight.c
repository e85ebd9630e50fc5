/* Requests that come again while they are worked on. */
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/bus/flight.h"

#include <criterion/criterion.h>

static zmsg_t *request(const char *sender, const char *verb, const char *id)
{
    zmsg_t *msg = request_encode(verb, id, NULL, "ac_1", 1, NULL, json_object());

    zmsg_pushstr(msg, sender);
    return msg;
}

static bool again(flights_t *flights, const char *sender, const char *verb, const char *id)
{
    zmsg_t *msg = request(sender, verb, id);
    char key[FLIGHT_KEY_SIZE], account[FLIGHT_ACCOUNT_SIZE];
    bool is_again;

    cr_assert(flight_key(msg, key, account));
    cr_assert_str_eq(account, "ac_1");
    is_again = flights_again(flights, key, zmsg_first(msg));
    if (!is_again)
        flights_begin(flights, key);
    zmsg_destroy(&msg);
    return is_again;
}

static void assert_end(flights_t *flights, const char *key, const char *sender)
{
    zframe_t *frame = flights_end(flights, key);

    cr_assert_eq(frame != NULL, sender != NULL);
    if (sender)
        cr_assert(zframe_streq(frame, sender));
    zframe_destroy(&frame);
}

Test(flight, is_known_by_verb_and_id_until_it_ends)
{
    flights_t *flights = flights_new(10);

    cr_assert_not(again(flights, "a", "vault.create", "op_1"));
    cr_assert(again(flights, "a", "vault.create", "op_1"));
    cr_assert_not(again(flights, "a", "vault.create", "op_2"));
    cr_assert_not(again(flights, "a", "vault.get", "op_1"));
    assert_end(flights, "vault.create op_1", "a");
    cr_assert_not(again(flights, "a", "vault.create", "op_1"), "it may have been lost on the way");
    flights_destroy(&flights);
}

Test(flight, answers_where_the_newest_came_from)
{
    flights_t *flights = flights_new(10);

    again(flights, "a", "vault.create", "op_1");
    again(flights, "b", "vault.create", "op_1");
    again(flights, "c", "vault.create", "op_1");
    again(flights, "a", "vault.create", "op_2");
    assert_end(flights, "vault.create op_1", "c");
    assert_end(flights, "vault.create op_2", NULL);
    assert_end(flights, "", NULL);
    flights_destroy(&flights);
}

Test(flight, is_bounded)
{
    flights_t *flights = flights_new(1);

    cr_assert_not(again(flights, "a", "vault.create", "op_1"));
    cr_assert_not(again(flights, "a", "vault.create", "op_2"));
    cr_assert_not(again(flights, "a", "vault.create", "op_2"), "worked on twice");
    cr_assert(again(flights, "a", "vault.create", "op_1"));
    flights_destroy(&flights);
}

Test(flight, says_whom_an_answer_is_for_whatever_the_body_is)
{
    zmsg_t *msg = request("a", "vault.create", "op_1");
    zframe_t *body = zmsg_last(msg);
    char id[FLIGHT_ID_SIZE];

    zframe_reset(body, "\xff", 1);
    cr_assert(flight_id(msg, id));
    cr_assert_str_eq(id, "op_1");
    zmsg_destroy(&msg);
}

Test(flight, takes_no_key_from_what_is_no_request)
{
    static const char *const junk[] = {"x", "\x81\xa2id\xc0", "\xff", ""};
    char key[FLIGHT_KEY_SIZE], id[FLIGHT_ID_SIZE], account[FLIGHT_ACCOUNT_SIZE];
    zmsg_t *msg = zmsg_new();

    cr_assert_not(flight_key(msg, key, account));
    zmsg_addstr(msg, "a");
    zmsg_addstr(msg, "vault.create");
    cr_assert_not(flight_key(msg, key, account));
    zmsg_destroy(&msg);
    for (size_t i = 0; i < sizeof(junk) / sizeof(junk[0]); i++) {
        msg = zmsg_new();
        zmsg_addstr(msg, "a");
        zmsg_addstr(msg, "vault.create");
        zmsg_addstr(msg, junk[i]);
        zmsg_addstr(msg, "");
        cr_assert_not(flight_key(msg, key, account), "%zu", i);
        cr_assert_not(flight_id(msg, id), "%zu", i);
        zmsg_destroy(&msg);
    }
}
