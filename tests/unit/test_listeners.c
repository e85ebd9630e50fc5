/* Who listens to what, as libzmq tells it. */
#include "services/events/listeners.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FDS = 64 };

static ino_t sockets[FDS]; /* of each fd; 0: it is closed */

static ino_t find_socket(int fd)
{
    return fd >= 0 && fd < FDS ? sockets[fd] : 0;
}

static listeners_t *listeners(void)
{
    for (int i = 0; i < FDS; i++)
        sockets[i] = 1000 + (ino_t)i;
    return listeners_new(0, find_socket);
}

/* Over connection `fd`, of this key; its number is that of the fd. */
static bool say(listeners_t *self, const char *key, int fd, char word, const char *prefix)
{
    unsigned char data[256];
    char number[16];
    subscriber_t from = {number, key, fd};
    size_t len = strlen(prefix);

    snprintf(number, sizeof(number), "%d", fd);
    data[0] = (unsigned char)word;
    memcpy(data + 1, prefix, len);
    return listeners_take(self, &from, data, len + 1);
}

static void assert_text(listeners_t *self, const char *expected)
{
    char *text = listeners_text(self);

    cr_assert_str_eq(text, expected);
    free(text);
}

Test(listeners, a_connection_and_a_prefix_count_once)
{
    listeners_t *self = listeners();

    say(self, "k", 1, 1, "http_");
    say(self, "k", 1, 1, "http_");
    say(self, "k", 2, 1, "http_");
    cr_assert_eq(listeners_count(self), 2);
    assert_text(self, "{\"http_\":2}");
    say(self, "k", 1, 0, "http_");
    say(self, "k", 1, 0, "http_");
    say(self, "k", 3, 0, "http_");
    say(self, "other", 4, 0, "http_");
    cr_assert_eq(listeners_count(self), 1, "its own and no other's");
    cr_assert(listeners_want(self, "http_request_complete.v0"));
    sockets[2] = 0;
    listeners_sweep(self);
    cr_assert_eq(listeners_count(self), 0);
    cr_assert_not(listeners_want(self, "http_request_complete.v0"));
    assert_text(self, "{}");
    listeners_destroy(&self);
}

Test(listeners, prefixes_are_empty_or_text_of_a_type_s_length)
{
    char longest[98];
    listeners_t *self = listeners();

    memset(longest, 'x', 97);
    longest[97] = '\0';
    say(self, "k", 1, 1, longest);
    say(self, "k", 1, 1, "a b");
    say(self, "k", 1, 2, "a");
    cr_assert_eq(listeners_count(self), 0);
    say(self, "k", 1, 1, longest + 1);
    say(self, "k", 1, 1, "");
    cr_assert_eq(listeners_count(self), 2);
    cr_assert(listeners_want(self, "any"));
    listeners_destroy(&self);
}

static void say_many(listeners_t *self, const char *key, int fd, int n, const char *format)
{
    char prefix[32];

    for (int i = 0; i < n; i++) {
        snprintf(prefix, sizeof(prefix), format, i);
        say(self, key, fd, 1, prefix);
    }
}

Test(listeners, who_has_more_than_is_remembered_wants_everything)
{
    listeners_t *self = listeners();

    say_many(self, "k", 1, 10, "a%d");
    say_many(self, "k", 2, SUBSCRIPTIONS_OF_KEY - 10, "b%d");
    say_many(self, "other", 3, SUBSCRIPTIONS_OF_KEY, "c%d");
    cr_assert_eq(listeners_beyond(self), 0);
    cr_assert(say(self, "k", 2, 1, "b7"), "it has that");
    cr_assert_not(listeners_want(self, "http_request_complete.v0"));
    cr_assert_not(say(self, "k", 4, 1, "http_"));
    cr_assert_eq(listeners_beyond(self), 1);
    cr_assert(listeners_want(self, "http_request_complete.v0"));
    cr_assert(say(self, "third", 5, 1, "http_"), "another key has its share");
    say(self, "k", 1, 0, "http_");
    cr_assert_eq(listeners_beyond(self), 1, "that was none of its own");
    say(self, "k", 4, 0, "http_");
    cr_assert_eq(listeners_beyond(self), 0);
    cr_assert_eq(listeners_count(self), 2 * SUBSCRIPTIONS_OF_KEY + 1);
    say(self, "k", 1, 0, "a1");
    cr_assert(say(self, "k", 4, 1, "http_"), "there is room again");
    listeners_destroy(&self);
}

/* Nothing that one says costs more than its share, however much that is. */
Test(listeners, all_prefixes_have_a_bound_too)
{
    listeners_t *self = listeners();
    char key[8];

    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof(key), "k%d", i);
        say_many(self, key, i, SUBSCRIPTIONS_OF_KEY, "%d");
        say(self, key, i, 1, key);
    }
    cr_assert_eq(listeners_beyond(self), 8);
    sockets[0] = 0;
    listeners_sweep(self);
    cr_assert_eq(listeners_beyond(self), 7, "of the connection that ended");
    for (int i = 0; i < 8; i++) {
        snprintf(key, sizeof(key), "l%d", i);
        say_many(self, key, 10 + i, SUBSCRIPTIONS_OF_KEY,
                 key[1] == '0'   ? "x%d"
                 : key[1] == '1' ? "y%d"
                 : key[1] == '2' ? "z%d"
                                 : "w%d");
    }
    cr_assert_gt(listeners_beyond(self), 7);
    cr_assert(listeners_want(self, "http_request_complete.v0"));
    listeners_destroy(&self);
}

/* Who comes back is not one more, though its last connection was not found ended yet. */
Test(listeners, a_connection_that_ended_counts_no_more_for_its_key)
{
    listeners_t *self = listeners();

    say_many(self, "k", 1, SUBSCRIPTIONS_OF_KEY, "a%d");
    sockets[1] = 0;
    say_many(self, "k", 2, SUBSCRIPTIONS_OF_KEY, "a%d");
    cr_assert_eq(listeners_beyond(self), 0);
    cr_assert_eq(listeners_count(self), SUBSCRIPTIONS_OF_KEY);
    cr_assert(say(self, "k", 1, 1, "late"), "said before it ended, and nothing now");
    cr_assert_eq(listeners_count(self), SUBSCRIPTIONS_OF_KEY);
    listeners_destroy(&self);
}

/* What is not known of a connection does not end what it wants; the fd of one that ended may be
 * another's. */
Test(listeners, too_much_is_wanted_rather_than_too_little)
{
    listeners_t *self = listeners();

    say(self, "k", -1, 1, "http_");
    say(self, "k", 1, 1, "tcp_");
    listeners_sweep(self);
    cr_assert(listeners_want(self, "http_request_complete.v0"));
    sockets[1] = 7777;
    listeners_sweep(self);
    cr_assert_not(listeners_want(self, "tcp_connection_closed.v0"));
    cr_assert(listeners_want(self, "http_request_complete.v0"));
    listeners_destroy(&self);
}

Test(listeners, connections_that_ended_are_forgotten_in_the_end)
{
    listeners_t *self = listeners();

    say(self, "k", 1, 1, "a");
    say(self, "k", 2, 1, "a");
    sockets[1] = 0;
    listeners_sweep(self);
    cr_assert_eq(listeners_connections(self), 2, "there may be more that it said");
    say(self, "k", 1, 1, "b");
    cr_assert_eq(listeners_count(self), 1);
    listeners_sweep(self);
    cr_assert_eq(listeners_connections(self), 1);
    listeners_sweep(self);
    cr_assert_eq(listeners_connections(self), 1, "it is there");
    cr_assert(listeners_want(self, "a"));
    listeners_destroy(&self);
}
