/* The PUB socket: who listens, who listened before a restart, and what a subscriber that is too slow costs.
 *
 * Each event that has a number carries it in its envelope (proto/WIRE.md), so that whoever misses some knows which. A subscriber
 * that has as many events waiting as its mark allows holds up the others for a moment, until it reads again; then it is passed over. */
#pragma once

#include "common/store/pg.h"

#include <czmq.h>
#include <stdbool.h>

typedef struct feed feed_t;

typedef struct feed_args {
    const char *endpoint, *curve_dir;
    int mark;      /* events that wait for one subscriber */
    int return_ms; /* how long a subscriber that was there is waited for, and its wishes count */
} feed_args_t;

/* 0 | -EADDRINUSE | -ENOMEM. */
int feed_new(feed_t **ret_feed, const feed_args_t *args);
void feed_destroy(feed_t **self_p);

/* For the reactor: readable when a subscriber comes or goes. */
zsock_t *feed_socket(feed_t *self);

/* Take what subscribers said, some of it at a time; also to be called when they say nothing. True: there may be more. */
bool feed_read(feed_t *self);

/* This many listened to the prefix when the process before this one ended. */
void feed_expect(feed_t *self, const char *prefix, int n);

/* Is there still a subscriber missing that was there before? Ends after return_ms; *ret_missing: how many were given up
 * then, once. */
bool feed_waits(feed_t *self, int *ret_missing);

/* Does anybody, or did somebody until a moment ago, subscribe to this topic? */
bool feed_wants(feed_t *self, const char *topic);

/* Who listens, as JSON {prefix: how many}, when that changed since it was asked for last; else NULL. Caller frees. */
char *feed_listeners(feed_t *self);
/* It was not noted: say it again. */
void feed_listeners_again(feed_t *self);

/* Publish. number: topics.h. 0 | -EAGAIN: a subscriber's queue is full; try again in a moment. */
int feed_send(feed_t *self, const char *topic, size_t topic_len, const void *envelope, size_t len,
              int64_t number);

/* The process ends: subscribers that are full are hardly waited for. */
void feed_hurry(feed_t *self);

typedef struct feed_counts {
    uint64_t published;   /* events */
    uint64_t passed_over; /* times that a subscriber was too slow for too long */
    int subscriptions;    /* that there are */
    int beyond;           /* of them those to prefixes that are not remembered */
} feed_counts_t;

feed_counts_t feed_counts(const feed_t *self);
