/* Whose turn it is. A client may send thousands of requests at once; the loop is everybody's. Who had its share and has more
 * stands in a queue for the next turn of the loop, in which the services' replies and the timers have theirs too. */
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
    /* Nothing more may come over its socket: the loop must not fall asleep. */
    if (!turn->last && eventfd_write(turn->fd, 1))
        connection_shut(self);
    turn->last = self;
}

static connection_t *pop(turn_t *self)
{
    connection_t *first = self->first;

    if (!first)
        return NULL;
    self->first = first->behind;
    if (!self->first)
        self->last = NULL;
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
    for (; n < TURN_CONNECTIONS && (ret[n] = pop(turn)); n++)
        ;
    if (!turn->first)
        eventfd_read(turn->fd, &count); /* who waits from now on writes again */
    return n;
}
