/* The keys of session tickets: when they change, what is left of them, and what is no file of them.
 */
#include "services/edge/tls/tickets.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <string.h>

static const unsigned char key[crypto_secretbox_KEYBYTES] = "a key for tests and nothing....";

Test(tickets, a_key_is_prepared_seals_and_opens_for_two_periods_more)
{
    tickets_t tickets;
    unsigned char name[TICKETS_NAME_BYTES];

    cr_assert(sodium_init() >= 0);
    tickets_make(&tickets);
    memcpy(name, tickets.keys[TICKETS_NEXT].name, sizeof(name));
    for (int i = 0; i < TICKETS_KEYS; i++) {
        cr_assert_eq(tickets_find(&tickets, name), &tickets.keys[i]);
        tickets_rotate(&tickets, 1);
    }
    cr_assert_null(tickets_find(&tickets, name));
}

Test(tickets, as_many_changes_as_there_are_keys_leave_none)
{
    tickets_t before, after;

    cr_assert(sodium_init() >= 0);
    tickets_make(&before);
    after = before;
    tickets_rotate(&after, TICKETS_KEYS);
    for (int i = 0; i < TICKETS_KEYS; i++)
        cr_assert_null(tickets_find(&after, before.keys[i].name));
}

struct due_case {
    int64_t since, now;
    unsigned want;
};

ParameterizedTestParameters(tickets, changes_are_due)
{
    static struct due_case cases[] = {
        {1000, 1000, 0},
        {1000, 1099, 0},
        {1000, 1100, 1},
        {1000, 1399, 3},
        {1000, 1400, TICKETS_KEYS},
        {1000, 1000000, TICKETS_KEYS},
        {1000, 901, 0}, /* the clock was set back */
        {1000, 900, 1},
        {INT64_MIN, INT64_MAX, TICKETS_KEYS},
        {INT64_MAX, INT64_MIN, TICKETS_KEYS},
    };
    return cr_make_param_array(struct due_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct due_case *one, tickets, changes_are_due)
{
    cr_assert_eq(tickets_due(one->since, one->now, 100), one->want);
}

Test(tickets, what_was_sealed_is_opened_and_nothing_else)
{
    unsigned char sealed[TICKETS_BYTES + 1] = {0};
    unsigned char other[crypto_secretbox_KEYBYTES] = "another key of another edge....";
    tickets_t in, out, untouched;

    cr_assert(sodium_init() >= 0);
    tickets_make(&in);
    tickets_seal(&in, key, sealed);
    cr_assert_eq(tickets_open(sealed, TICKETS_BYTES, key, &out), 0);
    cr_assert_arr_eq(&in, &out, sizeof(in));
    tickets_make(&out);
    untouched = out;
    for (size_t len = 0; len <= sizeof(sealed); len++)
        if (len != TICKETS_BYTES)
            cr_assert_eq(tickets_open(sealed, len, key, &out), -EBADMSG, "%zu bytes", len);
    for (size_t bit = 0; bit < (size_t)TICKETS_BYTES * 8; bit++) {
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
        cr_assert_eq(tickets_open(sealed, TICKETS_BYTES, key, &out), -EBADMSG, "bit %zu", bit);
        sealed[bit / 8] ^= (unsigned char)(1 << bit % 8);
    }
    cr_assert_eq(tickets_open(sealed, TICKETS_BYTES, other, &out), -EBADMSG);
    cr_assert_arr_eq(&out, &untouched, sizeof(out));
}
