/* Turns of connections. A client may send thousands of requests at once, and one loop serves all
 * clients: a connection that had its share of a turn and has more to do waits here for the loop's
 * next turn, after the services' replies and the timers. */
#include "common/base/invariant.h"
#include "common/base/err.h"
#include "services/gateway/connection.h"

#include <errno.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

int turn_start(http_t *http)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = &http->turn};

    http->turn.fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (http->turn.fd < 0 || epoll_ctl(http->epoll, EPOLL_CTL_ADD, http->turn.fd, &event))
        return fault(-errno, "eventfd");
    return 0;
}

void turn_wait(connection_t *self)
{
    turn_t *turn = &self->gateway->http->turn;

    if (self->waits)
        return;
    self->waits = true;
    self->behind = NULL;
    if (turn->last)
        turn->last->behind = self;
    else
        turn->first = self;
    /* No byte need come from the connection again, so the eventfd wakes the loop. */
    if (!turn->last && eventfd_write(turn->fd, 1))
        connection_shut(self);
    turn->last = self;
}

static connection_t *turn_pop(turn_t *self)
{
    connection_t *first = self->first;

    if (!first)
        return NULL;
    self->first = first->behind;
    if (!self->first)
        self->last = NULL;
    INVARIANT(first->waits); /* a connection in the queue is not freed */
    first->waits = false;
    return first;
}

size_t turn_take(http_t *http, connection_t *ret[TURN_CONNECTIONS])
{
    turn_t *turn = &http->turn;
    eventfd_t count;
    size_t n = 0;

    if (!turn->first)
        return 0;
    for (; n < TURN_CONNECTIONS && (ret[n] = turn_pop(turn)); n++)
        ;
    if (!turn->first)
        eventfd_read(turn->fd, &count); /* connections that wait from now on write again */
    return n;
}
