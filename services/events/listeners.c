#include "services/events/listeners.h"
#include "common/base/memory.h"
#include "common/bus/bus.h"
#include "common/base/cleanup.h"
#include "services/events/topics.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

/* A prefix that is subscribed to, or was until a moment ago. */
typedef struct prefix {
    int n;            /* subscriptions now */
    int expected;     /* subscriptions before the restart */
    int64_t until_ms; /* when n is 0: the prefix is wanted until then (monotonic ms) */
} prefix_t;

typedef struct connection {
    char key[128];
    int fd;
    ino_t socket;
    zhashx_t *prefixes; /* its prefixes: keys of the prefixes below */
    int beyond;         /* subscriptions beyond the limit */
    bool ended;         /* nothing more will be heard of it */
} connection_t;

struct listeners {
    zhashx_t *prefixes;    /* "=" and prefix -> prefix_t; the "=" because a prefix may be empty */
    zhashx_t *connections; /* number -> connection_t */
    /* id of a key -> how many subscriptions of its connections are remembered */
    zhashx_t *shares;
    int count, beyond, return_ms;
    int64_t beyond_until_ms; /* as until_ms of prefix_t, for subscriptions beyond the limit */
    int64_t room_ms;         /* when room was searched for last */
    find_socket_t find_socket;
};

static void free_item(void **item)
{
    free(*item);
    *item = NULL;
}

static void free_connection(void **item)
{
    connection_t *self = *item;

    zhashx_destroy(&self->prefixes);
    free(self);
    *item = NULL;
}

listeners_t *listeners_new(int return_ms, find_socket_t find_socket)
{
    _cleanup_(listeners_destroy) listeners_t *self = memory_new(sizeof(*self), "listeners");

    self->return_ms = return_ms;
    self->find_socket = find_socket;
    self->prefixes = memory_need(zhashx_new(), "listeners");
    self->connections = memory_need(zhashx_new(), "listeners");
    self->shares = memory_need(zhashx_new(), "listeners");
    zhashx_set_destructor(self->prefixes, free_item);
    zhashx_set_destructor(self->connections, free_connection);
    zhashx_set_destructor(self->shares, free_item);
    return take(self);
}

void listeners_destroy(listeners_t **self_p)
{
    listeners_t *self = *self_p;

    if (!self)
        return;
    zhashx_destroy(&self->prefixes);
    zhashx_destroy(&self->connections);
    zhashx_destroy(&self->shares);
    free(self);
    *self_p = NULL;
}

/* ---- prefixes ---- */

enum {
    KEY_SIZE = TOPIC_MAX + 2,
    ROOM_MS = 100, /* between two searches for room */
};

/* False: no event type begins with this prefix. */
static bool read_prefix(const unsigned char *data, size_t len, char key[KEY_SIZE])
{
    if (len > TOPIC_MAX)
        return false;
    key[0] = '=';
    for (size_t i = 0; i < len; i++) {
        if (data[i] <= ' ' || data[i] > '~')
            return false;
        key[i + 1] = (char)data[i];
    }
    key[len + 1] = '\0';
    return true;
}

static prefix_t *ensure_prefix(listeners_t *self, const char *key)
{
    prefix_t *one = zhashx_lookup(self->prefixes, key);

    if (!one) {
        one = memory_new(sizeof(*one), "a prefix");
        zhashx_insert(self->prefixes, key, one);
    }
    return one;
}

static void remove_one(listeners_t *self, const char *key)
{
    prefix_t *one = zhashx_lookup(self->prefixes, key);

    if (!one || one->n == 0)
        return;
    one->n--;
    one->until_ms = bus_mono_ms() + self->return_ms;
    self->count--;
}

/* Forget the prefixes that nobody subscribes to any more. */
static void forget_prefixes(listeners_t *self)
{
    _cleanup_(zlistx_destroy) zlistx_t *keys = zhashx_keys(self->prefixes);
    int64_t now = bus_mono_ms();

    for (const char *key = zlistx_first(keys); key; key = zlistx_next(keys)) {
        const prefix_t *one = zhashx_lookup(self->prefixes, key);

        if (one->n == 0 && now >= one->until_ms)
            zhashx_delete(self->prefixes, key);
    }
}

/* ---- connections ---- */

static int *share_of(listeners_t *self, const char *key)
{
    int *share = zhashx_lookup(self->shares, key);

    if (!share) {
        share = memory_new(sizeof(*share), "a share of subscriptions");
        zhashx_insert(self->shares, key, share);
    }
    return share;
}

static connection_t *ensure_connection(listeners_t *self, const subscriber_t *from)
{
    connection_t *one = zhashx_lookup(self->connections, from->number);

    if (one)
        return one;
    one = memory_new(sizeof(*one), "a subscriber's connection");
    one->prefixes = memory_need(zhashx_new(), "a subscriber's prefixes");
    snprintf(one->key, sizeof(one->key), "%s", from->key);
    one->fd = from->fd;
    one->socket = self->find_socket(from->fd);
    zhashx_insert(self->connections, from->number, one);
    return one;
}

/* Has the connection ended? One that ended before it was heard of may have left its fd to another
 * connection: then it is forgotten when that one ends. */
static bool has_ended(const listeners_t *self, const connection_t *connection)
{
    return connection->fd >= 0
           && (!connection->socket || self->find_socket(connection->fd) != connection->socket);
}

static void remove_beyond(listeners_t *self, connection_t *connection, int n)
{
    if (!n)
        return;
    connection->beyond -= n;
    self->beyond -= n;
    self->count -= n;
    self->beyond_until_ms = bus_mono_ms() + self->return_ms;
}

static void end_connection(listeners_t *self, connection_t *connection)
{
    for (void *one = zhashx_first(connection->prefixes); one;
         one = zhashx_next(connection->prefixes))
        remove_one(self, zhashx_cursor(connection->prefixes));
    *share_of(self, connection->key) -= (int)zhashx_size(connection->prefixes);
    zhashx_purge(connection->prefixes);
    remove_beyond(self, connection, connection->beyond);
    connection->ended = true;
}

void listeners_sweep(listeners_t *self)
{
    _cleanup_(zlistx_destroy) zlistx_t *numbers = zhashx_keys(self->connections);

    for (const char *number = zlistx_first(numbers); number; number = zlistx_next(numbers)) {
        connection_t *one = zhashx_lookup(self->connections, number);

        if (one->ended)
            zhashx_delete(self->connections, number);
        else if (has_ended(self, one))
            end_connection(self, one);
    }
    forget_prefixes(self);
}

/* ---- subscribing ---- */

static bool has_room(listeners_t *self, const connection_t *connection, const char *key)
{
    return *share_of(self, connection->key) < SUBSCRIPTIONS_OF_KEY
           && (zhashx_size(self->prefixes) < PREFIXES_MAX || zhashx_lookup(self->prefixes, key));
}

/* Search for ended connections to make room: when many come back at once, their old connections may
 * still be counted. */
static bool make_room(listeners_t *self, const connection_t *connection, const char *key)
{
    int64_t now = bus_mono_ms();

    if (has_room(self, connection, key))
        return true;
    if (self->room_ms && now - self->room_ms < ROOM_MS)
        return false;
    self->room_ms = now;
    for (connection_t *one = zhashx_first(self->connections); one;
         one = zhashx_next(self->connections))
        if (!one->ended && one != connection && has_ended(self, one))
            end_connection(self, one);
    forget_prefixes(self);
    return has_room(self, connection, key);
}

static bool add_subscription(listeners_t *self, connection_t *connection, const char *key)
{
    if (zhashx_lookup(connection->prefixes, key))
        return true;
    self->count++;
    if (!make_room(self, connection, key)) {
        connection->beyond++;
        self->beyond++;
        return false;
    }
    zhashx_insert(connection->prefixes, key, connection);
    ensure_prefix(self, key)->n++;
    ++*share_of(self, connection->key);
    return true;
}

/* Remove a subscription. One that the connection never made is ignored, unless it may be among
 * those beyond the limit. */
static void remove_subscription(listeners_t *self, connection_t *connection, const char *key)
{
    if (!zhashx_lookup(connection->prefixes, key)) {
        remove_beyond(self, connection, connection->beyond > 0);
        return;
    }
    zhashx_delete(connection->prefixes, key);
    remove_one(self, key);
    --*share_of(self, connection->key);
}

bool listeners_take(listeners_t *self, const subscriber_t *from, const unsigned char *data,
                    size_t len)
{
    connection_t *connection = ensure_connection(self, from);
    char key[KEY_SIZE];

    if (connection->ended || len < 1 || data[0] > 1 || !read_prefix(data + 1, len - 1, key))
        return true;
    if (data[0])
        return add_subscription(self, connection, key);
    remove_subscription(self, connection, key);
    return true;
}

/* ---- questions ---- */

void listeners_expect(listeners_t *self, const char *prefix, int n)
{
    char key[KEY_SIZE];
    prefix_t *one;

    if (!read_prefix((const unsigned char *)prefix, strlen(prefix), key)
        || zhashx_size(self->prefixes) >= PREFIXES_MAX)
        return;
    one = ensure_prefix(self, key);
    one->expected = n;
    one->until_ms = bus_mono_ms() + self->return_ms;
}

int listeners_missing(const listeners_t *self)
{
    int missing = 0;

    for (prefix_t *one = zhashx_first(self->prefixes); one; one = zhashx_next(self->prefixes))
        if (one->n < one->expected)
            missing += one->expected - one->n;
    return missing;
}

bool listeners_want(const listeners_t *self, const char *topic)
{
    int64_t now = bus_mono_ms();

    if (self->beyond > 0 || now < self->beyond_until_ms)
        return true;
    for (prefix_t *one = zhashx_first(self->prefixes); one; one = zhashx_next(self->prefixes)) {
        const char *prefix = (const char *)zhashx_cursor(self->prefixes) + 1;

        if ((one->n > 0 || now < one->until_ms) && !strncmp(topic, prefix, strlen(prefix)))
            return true;
    }
    return false;
}

char *listeners_text(listeners_t *self)
{
    _cleanup_(json_clear_ref) json_t *all = json_object();

    for (prefix_t *one = zhashx_first(self->prefixes); one; one = zhashx_next(self->prefixes))
        if (one->n > 0)
            json_object_set_new(all, (const char *)zhashx_cursor(self->prefixes) + 1,
                                json_integer(one->n));
    return json_dumps(all, JSON_COMPACT);
}

int listeners_count(const listeners_t *self)
{
    return self->count;
}

int listeners_beyond(const listeners_t *self)
{
    return self->beyond;
}

int listeners_connections(const listeners_t *self)
{
    return (int)zhashx_size(self->connections);
}
