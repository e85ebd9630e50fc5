/* Which connections are closed: when the table is full, when an address has its share of it, or
 * when too many bytes of answers wait for their clients. */
#include "services/gateway/connection.h"

enum { EVICT_MAX = 8 }; /* connections closed in one go: each is searched for among all */

/* In which order connections are closed to make room, 1 first: those that only wait for the client
 * to close; those without a valid key, the oldest first, however busy; those with a key that are
 * between two requests, or slow; those whose caller is asked for, or whose body is parsed. 0: not
 * closed, because its call is at a service: it ends by itself in bounded time, and no owner has so
 * many that there is room for nobody else (owners.h). */
static int rank_of(const connection_t *self)
{
    if (self->fd < 0 || (self->call && self->call->state == CALLING))
        return 0;
    if (self->call && self->call->state != READING)
        return 4;
    if (self->phase == LINGER)
        return 1;
    return self->trusted ? 3 : 2;
}

/* Is the connection between two requests? */
static bool is_idle(const connection_t *self)
{
    return self->phase == HEAD && !self->in_len;
}

static int64_t since_of(const connection_t *self)
{
    return self->trusted ? self->since_ms : self->born_ms;
}

/* Does one, which is of the same rank as the other, go before it? Among those with a key: of the
 * owner who has most connections, and first those between two requests. */
static bool goes_before(const connection_t *one, const connection_t *other, int rank)
{
    if (rank > 2 && one->owner->connections != other->owner->connections)
        return one->owner->connections > other->owner->connections;
    if (rank == 3 && is_idle(one) != is_idle(other))
        return is_idle(one);
    /* <=, because the list begins with the newest and the oldest is closed first */
    return since_of(one) <= since_of(other);
}

/* The connection to close next, of that address or of ANYONE's; NULL: none. */
static connection_t *find_victim(http_t *http, uint32_t address)
{
    connection_t *found = NULL;
    int found_rank = 0;

    for (connection_t *one = http->first; one; one = one->next) {
        int rank = rank_of(one);

        if (!rank || (address != ANYONE && (one->trusted || one->call || one->address != address)))
            continue;
        if (!found || rank < found_rank || (rank == found_rank && goes_before(one, found, rank))) {
            found = one;
            found_rank = rank;
        }
    }
    return found;
}

/* The connection whose client has taken nothing of its answer for longest: of that owner, or, NULL,
 * of the owner who has most bytes waiting. NULL: no answer waits. */
static connection_t *find_slowest(http_t *http, const owner_t *owner)
{
    connection_t *found = NULL;

    for (connection_t *one = http->first; one; one = one->next) {
        if (!one->unread || (owner && one->owner != owner))
            continue;
        if (!found || one->owner->unread > found->owner->unread
            || (one->owner == found->owner && one->moved_ms <= found->moved_ms))
            found = one;
    }
    return found;
}

void room_set_unread(connection_t *self, size_t bytes)
{
    http_t *http = self->gateway->http;
    connection_t *slowest;

    owners_take_unread(http->owners, self->owner, self->unread);
    owners_add_unread(http->owners, self->owner, bytes);
    self->unread = bytes;
    while (bytes
           && (self->owner->unread > UNREAD_OWN_MAX || owners_unread(http->owners) > UNREAD_MAX)
           && (slowest =
                   find_slowest(http, self->owner->unread > UNREAD_OWN_MAX ? self->owner : NULL))) {
        self->gateway->metrics.unread++;
        connection_shut(slowest);
    }
}

bool room_is_there(gateway_t *gateway)
{
    return gateway->http->count < CONNECTIONS_MAX || find_victim(gateway->http, ANYONE);
}

bool room_evict(gateway_t *gateway, uint32_t address)
{
    connection_t *victim = find_victim(gateway->http, address);

    if (!victim)
        return false;
    connection_shut(victim);
    gateway->metrics.evicted++;
    return true;
}

void room_make(gateway_t *gateway, uint32_t address, bool proxy)
{
    long limit = config_int(gateway->config, "connections-per-address"), held = 0;
    http_t *http = gateway->http;

    if (http->count >= CONNECTIONS_MAX)
        room_evict(gateway, ANYONE);
    if (proxy || !limit)
        return; /* the proxy bounds its own clients */
    for (const connection_t *one = http->first; one; one = one->next)
        held += one->fd >= 0 && !one->trusted && !one->call && one->address == address;
    /* Close several: connections that had a call when they were counted before may have become
     * idle. */
    for (int i = 0; i < EVICT_MAX && held >= limit && room_evict(gateway, address); i++)
        held--;
}
