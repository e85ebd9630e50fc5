/* Who listens to what: the subscriptions of each connection of the PUB socket, and how many there are to each prefix.
 *
 * libzmq keeps a connection and a prefix once. It tells each time that a peer subscribes or unsubscribes, also when it does so twice, or
 * never subscribed; when a connection ends it tells its prefixes once more, and not whose they were. Counted is what libzmq has. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Subscriptions of one key. Each costs libzmq up to 40 bytes for every byte of its prefix. */
enum { SUBSCRIPTIONS_OF_KEY = 1024 };

typedef struct listeners listeners_t;

/* A connection as its messages say it. */
typedef struct subscriber {
    const char *number; /* nobody else's, ever */
    const char *key;    /* id of the key that it showed */
    int fd;
} subscriber_t;

/* Which socket this fd is now: a number that no other has at the same time; 0: none of ours. */
typedef ino_t (*find_socket_t)(void *context, int fd);

/* return_ms: what is gone counts as long. NULL when out of memory. */
listeners_t *listeners_new(int return_ms, find_socket_t find_socket, void *context);
void listeners_destroy(listeners_t **self_p);

/* What a connection says: 1 or 0, and a prefix. What is neither counts as a subscription to nothing. */
void listeners_take(listeners_t *self, const subscriber_t *from, const unsigned char *data,
                    size_t len);

/* What libzmq says of a connection that has ended: 0, and one of its prefixes. */
void listeners_take_end(listeners_t *self, const unsigned char *data, size_t len);

/* The fd of the connection that is to be closed when this key has more subscriptions than it may: of its connections the one that has
 * most of them, or is youngest. It counts no more then. -1: there is none. */
int listeners_find_excess(listeners_t *self, const char *key);

/* Forget connections that ended. To be called when nothing is left to be read, and not more than once a second: what was found ended is
 * kept until the next time, because until then what it said last may not have been read. */
void listeners_sweep(listeners_t *self);

/* This many listened to the prefix when the process before this one ended. */
void listeners_expect(listeners_t *self, const char *prefix, int n);

/* How many are missing of those that are expected. */
int listeners_missing(const listeners_t *self);

/* Does anybody, or did somebody until a moment ago, subscribe to this topic? */
bool listeners_want(const listeners_t *self, const char *topic);

/* As JSON {prefix: how many}. Caller frees. NULL when out of memory. */
char *listeners_text(listeners_t *self);

/* Subscriptions that there are, and connections that are remembered. */
int listeners_count(const listeners_t *self);
int listeners_connections(const listeners_t *self);
