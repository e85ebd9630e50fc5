#include "services/events/feed.h"
#include "common/bus.h"
#include "common/cleanup.h"
#include "common/log.h"
#include "services/events/topics.h"

#include <errno.h>
#include <jansson.h>
#include <string.h>

enum {
    PREFIX_MAX = 128,
    PREFIXES_MAX = 4096, /* remembered one by one; libzmq serves more */
    FORGET_MS =
        1000, /* between two looks for those that nobody has any more, when there is no room */
    SAY_MS = 60000,
    HURRY_MS = 100,     /* the same when the process ends */
    PATIENCE_MS = 1000, /* others wait so long for one whose queue is full */
    SILENCE_MS = 30000, /* a subscriber that stands still for less keeps what waits for it */
    STAMP_MAX = 16 + 9, /* the key and the number */
    MAP_HEAD_MAX = 5
};

static const char stamp_key[] = "sequence";

typedef struct listener {
    int n;            /* subscriptions that there are */
    int expected;     /* there were before the restart */
    int64_t until_ms; /* one that is gone counts as long */
} listener_t;

struct feed {
    zsock_t *pub;
    zhashx_t *listeners; /* "=" and prefix -> listener_t: an empty prefix is one too */
    int beyond; /* subscriptions to prefixes that there was no room for: they may be to anything */
    int64_t beyond_until_ms, forgot_ms, said_ms; /* as listener_t; when it was done and said last */
    int return_ms, patience_ms;
    bool waits, changed;
    int64_t start_ms, full_since_ms; /* 0: nobody's queue is full */
    char *stamped;                   /* the envelope with its number */
    size_t stamped_size;
    feed_counts_t counts;
};

static void free_listener(void **item)
{
    free(*item);
    *item = NULL;
}

int feed_new(feed_t **ret_feed, const feed_args_t *args)
{
    _cleanup_(feed_destroy) feed_t *self = calloc(1, sizeof(*self));

    if (!self)
        return -ENOMEM;
    self->return_ms = args->return_ms;
    self->patience_ms = PATIENCE_MS;
    self->start_ms = bus_mono_ms();
    self->listeners = zhashx_new();
    if (!self->listeners)
        return -ENOMEM;
    zhashx_set_destructor(self->listeners, free_listener);
    self->pub =
        bus_bind_marked(ZMQ_XPUB, (bus_marks_t){.send = args->mark, .silence_ms = SILENCE_MS},
                        args->endpoint, args->curve_dir, SOCKET_PUB);
    if (!self->pub)
        return -EADDRINUSE;
    zsock_set_xpub_verboser(self->pub, 1); /* each that comes and each that goes */
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
    zhashx_destroy(&self->listeners);
    free(self->stamped);
    free(self);
    *self_p = NULL;
}

zsock_t *feed_socket(feed_t *self)
{
    return self->pub;
}

/* ---- who listens ---- */

/* Those that nobody has named for a while. */
static void forget_listeners(feed_t *self)
{
    _cleanup_(zlistx_destroy) zlistx_t *keys = zhashx_keys(self->listeners);
    int64_t now = bus_mono_ms();

    for (const char *key = zlistx_first(keys); key; key = zlistx_next(keys)) {
        const listener_t *one = zhashx_lookup(self->listeners, key);

        if (one->n == 0 && now >= one->until_ms)
            zhashx_delete(self->listeners, key);
    }
}

static listener_t *find_listener(feed_t *self, const char *key)
{
    listener_t *one = zhashx_lookup(self->listeners, key);

    if (!one && zhashx_size(self->listeners) >= PREFIXES_MAX
        && bus_mono_ms() - self->forgot_ms >= FORGET_MS) {
        self->forgot_ms = bus_mono_ms();
        forget_listeners(self);
    }
    if (!one && zhashx_size(self->listeners) < PREFIXES_MAX) {
        one = calloc(1, sizeof(*one));
        if (one)
            zhashx_insert(self->listeners, key, one);
    }
    return one;
}

/* Who cannot be remembered wants everything: nobody's events are left out because somebody else has many wishes. */
static void take_beyond(feed_t *self, bool comes)
{
    int64_t now = bus_mono_ms();

    if (!comes && !self->beyond)
        return;
    self->beyond += comes ? 1 : -1;
    self->counts.subscriptions += comes ? 1 : -1;
    self->counts.beyond = self->beyond;
    self->beyond_until_ms = now + self->return_ms;
    if (comes && (!self->said_ms || now - self->said_ms >= SAY_MS)) {
        self->said_ms = now;
        log_warn("subscribers have more than %d prefixes: for those beyond, all events are made",
                 PREFIXES_MAX);
    }
}

/* 1 or 0, then the prefix. A prefix that is no plain text is nothing that an event's type begins with. */
static void take_subscription(feed_t *self, const unsigned char *data, size_t len)
{
    char key[PREFIX_MAX + 2] = "=";
    listener_t *one;

    if (len < 1 || len > PREFIX_MAX || data[0] > 1)
        return;
    for (size_t i = 1; i < len; i++) {
        if (data[i] <= ' ' || data[i] > '~')
            return;
        key[i] = (char)data[i];
    }
    key[len] = '\0';
    one = find_listener(self, key);
    if (!one) {
        take_beyond(self, data[0]);
        return;
    }
    if (data[0]) {
        one->n++;
        self->counts.subscriptions++;
    } else if (one->n > 0) {
        one->n--;
        self->counts.subscriptions--;
        one->until_ms = bus_mono_ms() + self->return_ms;
    }
    self->changed = true;
}

void feed_read(feed_t *self)
{
    while (zsock_events(self->pub) & ZMQ_POLLIN) {
        zframe_t *frame = zframe_recv(self->pub);

        if (!frame)
            break;
        take_subscription(self, zframe_data(frame), zframe_size(frame));
        zframe_destroy(&frame);
    }
}

void feed_expect(feed_t *self, const char *prefix, int n)
{
    char key[PREFIX_MAX + 2];
    listener_t *one;

    snprintf(key, sizeof(key), "=%s", prefix);
    one = find_listener(self, key);
    if (!one)
        return;
    one->expected = n;
    one->until_ms = self->start_ms + self->return_ms;
    self->waits = self->return_ms > 0;
}

bool feed_waits(feed_t *self, int *ret_missing)
{
    int missing = 0;

    *ret_missing = 0;
    if (!self->waits)
        return false;
    for (listener_t *one = zhashx_first(self->listeners); one; one = zhashx_next(self->listeners))
        if (one->n < one->expected)
            missing += one->expected - one->n;
    if (missing && bus_mono_ms() < self->start_ms + self->return_ms)
        return true;
    self->waits = false;
    self->changed = true; /* those who are there now */
    *ret_missing = missing;
    return false;
}

bool feed_wants(feed_t *self, const char *topic)
{
    int64_t now = bus_mono_ms();

    if (self->beyond || now < self->beyond_until_ms)
        return true;
    for (listener_t *one = zhashx_first(self->listeners); one; one = zhashx_next(self->listeners)) {
        const char *prefix = (const char *)zhashx_cursor(self->listeners) + 1;

        if ((one->n > 0 || now < one->until_ms) && !strncmp(topic, prefix, strlen(prefix)))
            return true;
    }
    return false;
}

char *feed_listeners(feed_t *self)
{
    _cleanup_(json_clear_ref) json_t *all = NULL;

    if (!self->changed || self->waits)
        return NULL;
    forget_listeners(self);
    all = json_object();
    for (listener_t *one = zhashx_first(self->listeners); one; one = zhashx_next(self->listeners))
        if (one->n > 0)
            json_object_set_new(all, (const char *)zhashx_cursor(self->listeners) + 1,
                                json_integer(one->n));
    self->changed = false;
    return json_dumps(all, JSON_COMPACT);
}

void feed_listeners_again(feed_t *self)
{
    self->changed = true;
}

/* ---- events ---- */

/* The head of a map of n fields. */
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

/* How many bytes the head of this map has, and how many fields it says. 0: it is no map. */
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

/* The envelope with one more field, its number, in self->stamped. 0: it is no map, or there is no memory. */
static size_t stamp(feed_t *self, const void *envelope, size_t len, int64_t number)
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

/* The others have waited long enough: this event goes past those whose queues are full, and so do the next ones until these
 * have read half of what waits for them. libzmq does not say which they are; they see it by the numbers. */
static void pass_over(feed_t *self, const char *topic, size_t topic_len)
{
    self->counts.passed_over++;
    self->full_since_ms = 0;
    log_warn("a subscriber takes no events: more of them pass it over until it has read half of "
             "what waits for it");
    zsock_set_xpub_nodrop(self->pub, 0);
    zmq_send(zsock_resolve(self->pub), topic, topic_len, ZMQ_SNDMORE | ZMQ_DONTWAIT);
}

int feed_send(feed_t *self, const char *topic, size_t topic_len, const void *envelope, size_t len,
              int64_t number)
{
    void *pub = zsock_resolve(self->pub);
    size_t stamped = number > 0 ? stamp(self, envelope, len, number) : 0;
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
    /* the second half of a message goes to whom the first went; without it the next one would be taken for it */
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
}

feed_counts_t feed_counts(const feed_t *self)
{
    return self->counts;
}
