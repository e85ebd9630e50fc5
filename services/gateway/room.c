/* Which connections are closed when the table is full, or when an address has its share of it. */
#include "services/gateway/connection.h"

enum { EVICT_MAX = 8 }; /* connections closed in one go: each is searched for among all */

/* In which order connections are closed to make room, 1 first: those that only wait for the client
 * to close; those without a valid key, the oldest first, however busy; those with a key that are
 * between two requests; then slow ones. 0: not closed, because a call ends by itself in bounded
 * time. */
static int rank_of(const connection_t *self)
{
    if (self->call)
        return 0;
    if (self->phase == LINGER)
        return 1;
    if (!self->trusted)
        return 2;
    return self->phase == HEAD && !self->in_len ? 3 : 4;
}

/* The connection to close next, of that address or of ANYONE's; NULL: none. */
static connection_t *find_victim(http_t *http, uint32_t address)
{
    connection_t *found = NULL;
    int64_t found_since = 0;
    int found_rank = 0;

    for (connection_t *one = http->first; one; one = one->next) {
        int rank = one->fd < 0 ? 0 : rank_of(one);
        int64_t since = one->trusted ? one->since_ms : one->born_ms;

        if (!rank || (address != ANYONE && (one->trusted || one->address != address)))
            continue;
        if (!found || rank < found_rank || (rank == found_rank && since <= found_since)) {
            /* <=, because the list begins with the newest and the oldest of a rank is closed
             * first */
            found = one;
            found_rank = rank;
            found_since = since;
        }
    }
    return found;
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
