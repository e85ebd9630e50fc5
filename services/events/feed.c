#include "services/events/feed.h"
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/events/listeners.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum {
    READ_MAX = 256,     /* messages of subscribers before the loop does anything else */
    SWEEP_MS = 1000,    /* between two searches for connections that have ended */
    SAY_MS = 60000,     /* between two log lines about subscriptions beyond the limit */
    HURRY_MS = 100,     /* PATIENCE_MS while the process ends */
    PATIENCE_MS = 1000, /* how long other subscribers wait for one whose queue is full */
    SILENCE_MS = 30000, /* a subscriber that stands still for less time keeps its queue */
    STAMP_MAX = 16 + 9, /* the map key and the number */
    MAP_HEAD_MAX = 5
};

static const char stamp_key[] = "sequence";

struct feed {
    zsock_t *pub;
    listeners_t *listeners;
    int return_ms, patience_ms;
    bool waits, changed;
    int64_t swept_ms, said_ms;
    int64_t start_ms, full_since_ms; /* full_since_ms 0: no queue is full */
    char *stamped;                   /* the envelope with its number added */
    size_t stamped_size;
    feed_counts_t counts;
};

static ino_t find_socket(int fd);

int feed_new(feed_t **ret_feed, const feed_args_t *args)
{
    _cleanup_(feed_destroy) feed_t *self = memory_new(sizeof(*self), "the feed");

    self->return_ms = args->return_ms;
    self->patience_ms = PATIENCE_MS;
    self->start_ms = bus_mono_ms();
    self->listeners = listeners_new(args->return_ms, find_socket);
    if (!self->listeners)
        return -ENOMEM;
    self->pub =
        bus_bind_marked(ZMQ_XPUB, (bus_marks_t){.send = args->mark, .silence_ms = SILENCE_MS},
                        args->endpoint, args->curve_dir, SOCKET_PUB);
    if (!self->pub)
        return -EADDRINUSE;
    /* tell every subscription and unsubscription, duplicates too */
    zsock_set_xpub_verboser(self->pub, 1);
    zsock_set_xpub_nodrop(self->pub, 1);
    *ret_feed = take(self);
    return 0;
}

void feed_destroy(feed_t **self_p)
{
    feed_t *self = *self_p;

    if (!self)
        return;
    zsock_destroy(&self->pub);
    listeners_destroy(&self->listeners);
    free(self->stamped);
    free(self);
    *self_p = NULL;
}

zsock_t *feed_socket(feed_t *self)
{
    return self->pub;
}

/* ---- who listens ---- */

/* libzmq reports the fd that a message came over. When the message is read that fd may belong to
 * another connection, so the socket's inode identifies the connection. */
static ino_t find_socket(int fd)
{
    struct stat st;

    return !fstat(fd, &st) && S_ISSOCK(st.st_mode) ? st.st_ino : 0;
}

static void say_beyond(feed_t *self, const char *key)
{
    int64_t now = bus_mono_ms();
    char quoted[300];

    if (self->said_ms && now - self->said_ms < SAY_MS)
        return;
    self->said_ms = now;
    log_warn("peer=\"%s\" has more than %d subscriptions, or all have more than %d prefixes: for "
             "those beyond, all events are made",
             log_quote(key, strnlen(key, 70), quoted, sizeof(quoted)), SUBSCRIPTIONS_OF_KEY,
             PREFIXES_MAX);
}

/* Search for connections that have ended, once a second. Not while the subscribers from before a
 * restart are waited for: they would be forgotten. */
static void sweep_connections(feed_t *self)
{
    if (self->waits || bus_mono_ms() - self->swept_ms < SWEEP_MS)
        return;
    self->swept_ms = bus_mono_ms();
    listeners_sweep(self->listeners);
}

/* Take one subscription. What libzmq reports when a connection ends has no connection number,
 * because it does not say whose connection it was. */
static void take_subscription(feed_t *self, zframe_t *frame)
{
    const char *number = peer_connection(frame), *fd = zframe_meta(frame, "__fd");
    subscriber_t from = {number, peer_of(frame).id, fd ? atoi(fd) : -1};

    if (number && !listeners_take(self->listeners, &from, zframe_data(frame), zframe_size(frame)))
        say_beyond(self, from.key);
}

bool feed_read(feed_t *self)
{
    int count = listeners_count(self->listeners);
    bool more = true;

    for (int i = 0; i < READ_MAX && more; i++) {
        zframe_t *frame = zsock_events(self->pub) & ZMQ_POLLIN ? zframe_recv(self->pub) : NULL;

        more = frame;
        if (frame)
            take_subscription(self, frame);
        zframe_destroy(&frame);
    }
    sweep_connections(self);
    self->changed |= listeners_count(self->listeners) != count;
    return more;
}

void feed_expect(feed_t *self, const char *prefix, int n)
{
    listeners_expect(self->listeners, prefix, n);
    self->waits = self->return_ms > 0;
}

bool feed_waits(feed_t *self, int *ret_missing)
{
    int missing;

    *ret_missing = 0;
    if (!self->waits)
        return false;
    missing = listeners_missing(self->listeners);
    if (missing && bus_mono_ms() < self->start_ms + self->return_ms)
        return true;
    self->waits = false;
    self->changed = true; /* the subscribers that are there now */
    *ret_missing = missing;
    return false;
}

bool feed_wants(feed_t *self, const char *topic)
{
    return listeners_want(self->listeners, topic);
}

char *feed_listeners(feed_t *self)
{
    if (!self->changed || self->waits)
        return NULL;
    self->changed = false;
    return listeners_text(self->listeners);
}

void feed_listeners_again(feed_t *self)
{
    self->changed = true;
}

/* ---- events ---- */

/* Write the head of a map of n fields; returns its bytes. */
static size_t put_map_head(unsigned char *out, size_t n)
{
    if (n < 16) {
        out[0] = (unsigned char)(0x80 | n);
        return 1;
    }
    out[0] = n < 65536 ? 0xde : 0xdf;
    for (size_t i = 1, bytes = n < 65536 ? 2 : 4; i <= bytes; i++)
        out[i] = (unsigned char)(n >> 8 * (bytes - i));
    return n < 65536 ? 3 : 5;
}

/* How many bytes the head of this map has, and in *count how many fields it announces. 0: this is
 * no map. */
static size_t map_head(const unsigned char *data, size_t len, size_t *ret_n)
{
    size_t bytes;

    if (len >= 1 && (data[0] & 0xf0) == 0x80) {
        *ret_n = data[0] & 0x0f;
        return 1;
    }
    bytes = len < 1 ? 0 : data[0] == 0xde ? 2 : data[0] == 0xdf ? 4 : 0;
    if (!bytes || len < 1 + bytes)
        return 0;
    *ret_n = 0;
    for (size_t i = 1; i <= bytes; i++)
        *ret_n = *ret_n << 8 | data[i];
    return 1 + bytes;
}

/* Copy the envelope to self->stamped with its number as one more field; returns the bytes. 0: the
 * envelope is no map, or memory ran out. */
static size_t stamp_number(feed_t *self, const void *envelope, size_t len, int64_t number)
{
    size_t n, head = map_head(envelope, len, &n), used, size = len + MAP_HEAD_MAX + STAMP_MAX;

    if (!head || n >= UINT32_MAX)
        return 0;
    if (self->stamped_size < size) {
        char *larger = realloc(self->stamped, size);

        if (!larger)
            return 0;
        self->stamped = larger;
        self->stamped_size = size;
    }
    used = put_map_head((unsigned char *)self->stamped, n + 1);
    memcpy(self->stamped + used, (const char *)envelope + head, len - head);
    used += len - head;
    self->stamped[used++] = (char)(0xa0 | strlen(stamp_key));
    memcpy(self->stamped + used, stamp_key, strlen(stamp_key));
    used += strlen(stamp_key);
    self->stamped[used++] = (char)0xcf; /* unsigned, 64 bits */
    for (int shift = 56; shift >= 0; shift -= 8)
        self->stamped[used++] = (char)(number >> shift);
    return used;
}

/* Publish without waiting any longer for subscribers whose queues are full: they miss this event,
 * and the next ones until they have read half of their queue. libzmq does not say which subscribers
 * these are; they see it by the events' numbers. */
static void pass_over(feed_t *self, const char *topic, size_t topic_len)
{
    self->counts.passed_over++;
    self->full_since_ms = 0;
    log_warn("a subscriber's queue has been full for too long: it misses events until it has read "
             "half of what waits for it");
    zsock_set_xpub_nodrop(self->pub, 0);
    zmq_send(zsock_resolve(self->pub), topic, topic_len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
}

int feed_send(feed_t *self, const char *topic, size_t topic_len, const void *envelope, size_t len,
              int64_t number)
{
    void *pub = zsock_resolve(self->pub);
    size_t stamped = number > 0 ? stamp_number(self, envelope, len, number) : 0;
    bool passed = false;

    if (zmq_send(pub, topic, topic_len, ZMQ_SNDMORE | ZMQ_DONTWAIT) >= 0) {
        self->full_since_ms = 0;
    } else {
        if (!self->full_since_ms)
            self->full_since_ms = bus_mono_ms();
        if (bus_mono_ms() - self->full_since_ms < self->patience_ms)
            return -EAGAIN;
        passed = true;
        pass_over(self, topic, topic_len);
    }
    /* A message's second frame goes to those that got its first. It must follow at once, or the
     * next message would be taken for it. */
    while (zmq_send(pub, stamped ? self->stamped : envelope, stamped ? stamped : len, ZMQ_DONTWAIT)
               < 0
           && zmq_errno() == EINTR)
        continue;
    if (passed)
        zsock_set_xpub_nodrop(self->pub, 1);
    self->counts.published++;
    return 0;
}

void feed_hurry(feed_t *self)
{
    self->patience_ms = HURRY_MS;
    /* Search once more: connections that have ended must not be waited for by the next process. */
    self->swept_ms = 0;
}

feed_counts_t feed_counts(const feed_t *self)
{
    feed_counts_t counts = self->counts;

    counts.subscriptions = listeners_count(self->listeners);
    counts.beyond = listeners_beyond(self->listeners);
    return counts;
}
