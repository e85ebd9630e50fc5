/* Who listens to what, as libzmq tells it. */
#include "services/events/listeners.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FDS = 64 };

static ino_t sockets[FDS]; /* of each fd; 0: it is closed */

static ino_t find_socket(void *context, int fd)
{
    (void)context;
    return fd >= 0 && fd < FDS ? sockets[fd] : 0;
}

static listeners_t *listeners(void)
{
    for (int i = 0; i < FDS; i++)
        sockets[i] = 1000 + (ino_t)i;
    return listeners_new(0, find_socket, NULL);
}

/* Over connection `fd`, of this key; its number is that of the fd. */
static void say(listeners_t *self, const char *key, int fd, char word, const char *prefix)
{
    unsigned char data[256];
    char number[16];
    subscriber_t from = {number, key, fd};
    size_t len = strlen(prefix);

    snprintf(number, sizeof(number), "%d", fd);
    data[0] = (unsigned char)word;
    memcpy(data + 1, prefix, len);
    listeners_take(self, &from, data, len + 1);
}

static void end(listeners_t *self, const char *prefix)
{
    unsigned char data[256] = {0};

    memcpy(data + 1, prefix, strlen(prefix));
    listeners_take_end(self, data, strlen(prefix) + 1);
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
    end(self, "http_");
    cr_assert_eq(listeners_count(self), 0);
    cr_assert_not(listeners_want(self, "http_request_complete.v0"));
    end(self, "http_");
    end(self, "never");
    cr_assert_eq(listeners_count(self), 0);
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

Test(listeners, the_connection_with_most_subscriptions_of_a_key_has_to_go)
{
    listeners_t *self = listeners();

    say_many(self, "k", 1, 10, "a%d");
    say_many(self, "k", 2, SUBSCRIPTIONS_OF_KEY - 10, "b%d");
    say_many(self, "other", 3, SUBSCRIPTIONS_OF_KEY, "c%d");
    cr_assert_eq(listeners_find_excess(self, "k"), -1);
    cr_assert_eq(listeners_find_excess(self, "other"), -1);
    say(self, "k", 4, 1, "d");
    cr_assert_eq(listeners_find_excess(self, "k"), 2, "not the one that came last");
    cr_assert_eq(listeners_find_excess(self, "k"), -1, "once");
    say_many(self, "k", 2, 5000, "e%d");
    cr_assert_eq(listeners_find_excess(self, "k"), -1, "it is on its way out");
    cr_assert_eq(listeners_find_excess(self, "other"), -1);
    cr_assert_eq(listeners_count(self), 2 * SUBSCRIPTIONS_OF_KEY + 5001, "what libzmq has");
    listeners_destroy(&self);
}

Test(listeners, what_no_type_begins_with_counts_for_the_key)
{
    listeners_t *self = listeners();

    say_many(self, "k", 1, SUBSCRIPTIONS_OF_KEY, "a b%d");
    cr_assert_eq(listeners_find_excess(self, "k"), -1);
    say(self, "k", 1, 7, "");
    cr_assert_eq(listeners_find_excess(self, "k"), 1);
    cr_assert_eq(listeners_count(self), 0);
    listeners_destroy(&self);
}

Test(listeners, of_equals_the_youngest_has_to_go)
{
    listeners_t *self = listeners();

    for (int fd = 10; fd < 42; fd++)
        say_many(self, "k", fd, SUBSCRIPTIONS_OF_KEY / 32, "a%d");
    cr_assert_eq(listeners_find_excess(self, "k"), -1);
    say_many(self, "k", 5, SUBSCRIPTIONS_OF_KEY / 32, "a%d");
    cr_assert_eq(listeners_find_excess(self, "k"), 5);
    listeners_destroy(&self);
}

/* Who comes back is not one more, though its last connection was not told as ended yet. */
Test(listeners, a_connection_that_ended_counts_no_more_for_its_key)
{
    listeners_t *self = listeners();

    say_many(self, "k", 1, SUBSCRIPTIONS_OF_KEY, "a%d");
    sockets[1] = 0;
    say_many(self, "k", 2, SUBSCRIPTIONS_OF_KEY, "a%d");
    cr_assert_eq(listeners_find_excess(self, "k"), -1);
    sockets[2] = 7777; /* the fd is another connection's */
    say_many(self, "k", 3, SUBSCRIPTIONS_OF_KEY, "a%d");
    cr_assert_eq(listeners_find_excess(self, "k"), -1);
    say(self, "k", 3, 1, "b");
    cr_assert_eq(listeners_find_excess(self, "k"), 3);
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
    say(self, "k", 1, 1, "a");
    cr_assert_eq(listeners_count(self), 2, "once still");
    end(self, "a");
    listeners_sweep(self);
    cr_assert_eq(listeners_connections(self), 1);
    listeners_sweep(self);
    cr_assert_eq(listeners_connections(self), 1, "it is there");
    cr_assert(listeners_want(self, "a"));
    listeners_destroy(&self);
}
