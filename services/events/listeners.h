/* Who listens to what: the subscriptions of each connection of the PUB socket, and how many there are to each prefix.
 *
 * libzmq keeps a connection and a prefix once, without a bound. It tells each time that a peer subscribes or unsubscribes, also when it
 * does so twice, or never subscribed; when a connection ends it tells its prefixes, and not whose they were. So an end is not taken from
 * what libzmq tells: the connections themselves are looked at. Where something is not known, too much is wanted, never too little. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Subscriptions that are remembered by their prefix, of one key, and prefixes of all. Who has more wants everything. */
enum { SUBSCRIPTIONS_OF_KEY = 1024, PREFIXES_MAX = 4096 };

typedef struct listeners listeners_t;

/* A connection as its messages say it. */
typedef struct subscriber {
    const char *number; /* nobody else's, ever */
    const char *key;    /* id of the key that it showed */
    int fd;             /* -1: it is not known */
} subscriber_t;

/* Which socket this fd is now: a number that no other has at the same time; 0: none. */
typedef ino_t (*find_socket_t)(int fd);

/* return_ms: what is gone counts as long. NULL when out of memory. */
listeners_t *listeners_new(int return_ms, find_socket_t find_socket);
void listeners_destroy(listeners_t **self_p);

/* What a connection says: 1 or 0, and a prefix. What is neither, or no event's type begins with, is nothing. False: it has more
 * subscriptions than are remembered. */
bool listeners_take(listeners_t *self, const subscriber_t *from, const unsigned char *data,
                    size_t len);

/* Find the connections that have ended, and forget what they wanted. To be called about once a second: what was found ended is
 * ignored until the next time, because what it said last may not have been read. */
void listeners_sweep(listeners_t *self);

/* This many listened to the prefix when the process before this one ended. */
void listeners_expect(listeners_t *self, const char *prefix, int n);

/* How many are missing of those that are expected. */
int listeners_missing(const listeners_t *self);

/* Does anybody, or did somebody until a moment ago, subscribe to this topic? */
bool listeners_want(const listeners_t *self, const char *topic);

/* As JSON {prefix: how many}. Caller frees. NULL when out of memory. */
char *listeners_text(listeners_t *self);

/* Subscriptions that there are, those of them that are not remembered, and connections. */
int listeners_count(const listeners_t *self);
int listeners_beyond(const listeners_t *self);
int listeners_connections(const listeners_t *self);
