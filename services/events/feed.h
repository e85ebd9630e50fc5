/* The PUB socket: tracks subscribers, also those from before a restart, and bounds the cost of slow
 * ones.
 *
 * Each event that has a number carries it in its envelope (proto/WIRE.md), so that a subscriber
 * knows which events it missed. A subscriber with as many events waiting as its high-water mark
 * allows holds up the others for a moment; if it has not read by then, events pass it by. */
#pragma once

#include "common/store/pg.h"

#include <czmq.h>
#include <stdbool.h>

typedef struct feed feed_t;

typedef struct feed_args {
    const char *endpoint, *curve_dir;
    int mark; /* events that may wait for one subscriber */
    /* how long the service waits for a subscriber from before a restart, and makes events for one
     * that left */
    int return_ms;
} feed_args_t;

/* Bind the socket. 0 | -EADDRINUSE | -ENOMEM. */
int feed_new(feed_t **ret_feed, const feed_args_t *args);
void feed_destroy(feed_t **self_p);

/* The socket for the reactor: readable when a subscriber comes or goes. */
zsock_t *feed_socket(feed_t *self);

/* Read what subscribers sent, a bounded number of messages at a time; call it also when nothing
 * came. True: there may be more. */
bool feed_read(feed_t *self);

/* Note that n subscribers had this prefix when the last process ended. */
void feed_expect(feed_t *self, const char *prefix, int n);

/* True: a subscriber from before the restart is still missing. False after return_ms at the latest;
 * then *ret_missing is, once, how many were given up. */
bool feed_waits(feed_t *self, int *ret_missing);

/* Does anybody subscribe to this topic, or did somebody until return_ms ago? */
bool feed_wants(feed_t *self, const char *topic);

/* The subscribers as JSON {prefix: how many} if they changed since the last call, else NULL. The
 * caller frees the text. */
char *feed_listeners(feed_t *self);
/* The text could not be stored: return it again at the next call. */
void feed_listeners_again(feed_t *self);

/* Publish an event under its number (topics.h). 0 | -EAGAIN: a subscriber's queue is full; call
 * again in a moment. */
int feed_send(feed_t *self, const char *topic, size_t topic_len, const void *envelope, size_t len,
              int64_t number);

/* The process is about to end: from now on wait only HURRY_MS for a full queue. */
void feed_hurry(feed_t *self);

typedef struct feed_counts {
    uint64_t published;   /* events published */
    uint64_t passed_over; /* times that a subscriber was too slow for PATIENCE_MS */
    int subscriptions;    /* subscriptions now */
    int beyond;           /* of them, those beyond the limit: their prefixes are not remembered */
} feed_counts_t;

/* The counts since the start, and the subscriptions now. */
feed_counts_t feed_counts(const feed_t *self);
