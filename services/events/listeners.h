/* Subscriptions of each connection of the PUB socket, and how many there are to each prefix.
 *
 * libzmq keeps each pair of connection and prefix once, without a bound. It reports each time that
 * a peer subscribes or unsubscribes, also twice or without a subscription; when a connection ends
 * it reports its prefixes without saying whose they were. So ends are not taken from libzmq: the
 * connections themselves are checked. Where something is uncertain, too much counts as wanted,
 * never too little. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Bounds: subscriptions of one key, and prefixes of all. A connection with more counts as wanting
 * everything. */
enum { SUBSCRIPTIONS_OF_KEY = 1024, PREFIXES_MAX = 4096 };

typedef struct listeners listeners_t;

/* The connection that a message came over. */
typedef struct subscriber {
    const char *number; /* number of the connection; never used again */
    const char *key;    /* id of the key that it showed */
    int fd;             /* -1: not known */
} subscriber_t;

/* The inode of the socket that this fd is now, which no other open socket has; 0: none. */
typedef ino_t (*find_socket_t)(int fd);

/* return_ms: how long a subscription that is gone still counts. NULL when out of memory. */
listeners_t *listeners_new(int return_ms, find_socket_t find_socket);
void listeners_destroy(listeners_t **self_p);

/* Take a message of a connection: byte 1 or 0, and a prefix. Anything else, and prefixes that no
 * event type begins with, is ignored. False: it has more subscriptions than are remembered. */
bool listeners_take(listeners_t *self, const subscriber_t *from, const unsigned char *data,
                    size_t len);

/* Find the connections that have ended and forget their subscriptions; call it about once a second.
 * A connection that is found ended is forgotten at the next call, because its last messages may not
 * have been read yet. */
void listeners_sweep(listeners_t *self);

/* Note that n subscribers had this prefix when the last process ended. */
void listeners_expect(listeners_t *self, const char *prefix, int n);

/* How many of the expected subscribers are missing. */
int listeners_missing(const listeners_t *self);

/* Does anybody subscribe to this topic, or did somebody until return_ms ago? */
bool listeners_want(const listeners_t *self, const char *topic);

/* The subscribers as JSON {prefix: how many}. The caller frees it. NULL when out of memory. */
char *listeners_text(listeners_t *self);

/* Numbers of subscriptions, of those beyond the limits, and of connections. */
int listeners_count(const listeners_t *self);
int listeners_beyond(const listeners_t *self);
int listeners_connections(const listeners_t *self);
