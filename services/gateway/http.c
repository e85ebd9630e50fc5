/* The API's listeners, and the epoll with all its connections inside the gateway's reactor
 * (connection.c). When the table of connections is full those without a valid key are closed to
 * make room (room.c). In one turn of the loop a connection gets a few requests; then the other
 * connections, the services' replies and the timers have their turn (turn.c). */
#include "common/base/cleanup.h"
#include "common/base/files.h"
#include "common/base/invariant.h"
#include "common/base/memory.h"
#include "services/gateway/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    ACCEPTS_MAX = 64, /* connections that are accepted before the loop goes on */
    FILES_MORE = 512, /* descriptors of this process beside those of connections */
    TICK_MS = 1000    /* between two looks at the connections' deadlines */
};

/* ---- accepting ---- */

static void watch_listener(http_t *http, listener_t *listener)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};

    if (listener->fd >= 0 && !epoll_ctl(http->epoll, EPOLL_CTL_ADD, listener->fd, &event))
        listener->paused = false;
}

void http_resume_listeners(http_t *http)
{
    for (size_t i = 0; i < LEN(http->listeners); i++)
        if (http->listeners[i].paused)
            watch_listener(http, &http->listeners[i]);
}

/* Stop accepting until a call has ended, or until the next tick. */
static void pause_listener(http_t *http, listener_t *listener)
{
    if (!epoll_ctl(http->epoll, EPOLL_CTL_DEL, listener->fd, NULL))
        listener->paused = true;
}

static void on_accept(gateway_t *gateway, listener_t *listener)
{
    for (int i = 0; i < ACCEPTS_MAX; i++) {
        struct sockaddr_in from = {0};
        socklen_t len = sizeof(from);
        int fd;

        if (!room_is_there(gateway)) {
            pause_listener(gateway->http, listener);
            return;
        }
        fd = accept4(listener->fd, listener->proxy ? NULL : (struct sockaddr *)&from,
                     listener->proxy ? NULL : &len, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS)) {
            if (!room_evict(gateway, ANYONE))
                pause_listener(gateway->http, listener);
            return;
        }
        if (fd < 0)
            return;
        room_make(gateway, from.sin_addr.s_addr, listener->proxy);
        connection_adopt(gateway, fd, &from, listener->proxy);
    }
}

/* ---- the loop ---- */

static void run_waiting(http_t *http)
{
    connection_t *turn[TURN_CONNECTIONS];
    size_t n = turn_take(http, turn);

    for (size_t i = 0; i < n; i++)
        if (turn[i]->fd >= 0)
            connection_advance(turn[i], TURN_REQUESTS);
}

static int on_events(zloop_t *loop, zmq_pollitem_t *item, void *context)
{
    struct epoll_event events[TURN_CONNECTIONS];
    gateway_t *gateway = context;
    http_t *http = gateway->http;
    int n = epoll_wait(http->epoll, events, TURN_CONNECTIONS, 0);

    (void)loop;
    (void)item;
    run_waiting(http); /* first, so that connections that queue up in this turn go on in the next */
    for (int i = 0; i < n; i++) {
        void *what = events[i].data.ptr;

        if (what == &http->listeners[0] || what == &http->listeners[1])
            on_accept(gateway, what);
        else if (what != &http->turn)
            connection_on_event(what, events[i].events);
    }
    connection_free_closed(http);
    return 0;
}

static int on_deadlines(zloop_t *loop, int timer, void *context)
{
    gateway_t *gateway = context;
    http_t *http = gateway->http;
    int64_t now = bus_mono_ms();

    (void)loop;
    (void)timer;
    for (connection_t *one = http->first; one; one = one->next)
        if (one->fd >= 0 && one->phase != CALL && !one->waits && now > one->deadline_ms)
            connection_on_late(one);
    http_resume_listeners(http);
    connection_free_closed(http);
    return 0;
}

/* ---- calls ---- */

void http_resume(call_t *call)
{
    connection_t *self = call->connection;

    INVARIANT(self->call == call);
    if (self->fd < 0) {
        connection_end_call(self);
        return; /* connection_free_closed frees it */
    }
    if (call->state == ANSWERED)
        connection_begin_answer(self);
    /* no new request: one at a time, however fast the services answer */
    connection_advance(self, 0);
}

void http_read_body(call_t *call)
{
    zhashx_delete(call->gateway->calls, call->operation_id);
    input_begin_body(call->connection);
}

body_t *http_body(call_t *call)
{
    return &call->connection->body;
}

const char *http_header(const call_t *call, const char *name)
{
    return framing_get(&call->connection->head, name);
}

void http_trust(call_t *call)
{
    call->connection->trusted = true;
    if (strcmp(call->connection->owner->name, call->account))
        connection_set_owner(call->connection, call->account);
}

bool http_take_place(call_t *call)
{
    call->has_place = owners_begin_call(call->gateway->http->owners, call->connection->owner);
    call->gateway->metrics.over_share += !call->has_place;
    return call->has_place;
}

size_t http_metrics(const gateway_t *self, char *out, size_t size)
{
    return (size_t)snprintf(
        out, size,
        "postern_gateway_connections %zu\n"
        "postern_gateway_clients_cut_off_total %" PRIu64 "\n"
        "postern_gateway_connections_evicted_total %" PRIu64 "\n"
        "postern_gateway_malformed_requests_total %" PRIu64 "\n"
        "postern_gateway_calls_over_share_total %" PRIu64 "\n"
        "postern_gateway_unread_bytes %zu\n"
        "postern_gateway_unread_closed_total %" PRIu64 "\n",
        self->http ? self->http->count : 0, self->metrics.cut_off, self->metrics.evicted,
        self->metrics.malformed, self->metrics.over_share,
        self->http ? owners_unread(self->http->owners) : 0, self->metrics.unread);
}

/* ---- lifecycle ---- */

int http_start(gateway_t *self)
{
    const char *socket_path = config_str(self->config, "proxy-socket");
    http_t *http = memory_new(sizeof(*http), "the listeners");
    int r = 0;

    /* the table of connections is the bound, not the limit on open files */
    files_raise(CONNECTIONS_MAX + FILES_MORE);
    self->http = http;
    http->owners = owners_new(CALLS_MAX);
    http->listeners[0].fd = http->listeners[1].fd = http->turn.fd = -1;
    http->listeners[1].proxy = true;
    http->epoll = epoll_create1(EPOLL_CLOEXEC);
    if (http->epoll < 0)
        r = fault(-errno, "epoll_create1");
    if (!r)
        r = turn_start(http);
    if (!r)
        r = listen_tcp(config_str(self->config, "http-host"),
                       (uint16_t)config_int(self->config, "http-port"), &http->listeners[0].fd);
    if (!r && *socket_path)
        r = listen_proxy(socket_path, &http->listeners[1].fd);
    if (r)
        return r;
    snprintf(http->socket_path, sizeof(http->socket_path), "%s", socket_path);
    watch_listener(http, &http->listeners[0]);
    watch_listener(http, &http->listeners[1]);
    http->poll = (zmq_pollitem_t){.fd = http->epoll, .events = ZMQ_POLLIN};
    zloop_poller(self->loop, &http->poll, on_events, self);
    zloop_poller_set_tolerant(self->loop, &http->poll);
    http->timer = zloop_timer(self->loop, TICK_MS, 0, on_deadlines, self);
    return 0;
}

void http_stop(gateway_t *self)
{
    http_t *http = self->http;

    if (!http)
        return;
    zloop_poller_end(self->loop, &http->poll);
    zloop_timer_end(self->loop, http->timer);
    for (size_t i = 0; i < LEN(http->listeners); i++)
        fd_close(&http->listeners[i].fd);
    for (call_t *call; (call = zhashx_first(self->calls));) {
        call->connection->closes = true;
        call_refuse(call, ERR_MAINTENANCE, NULL, NULL);
        http_resume(call);
    }
    for (connection_t *one = http->first; one; one = one->next)
        connection_shut(one);
    for (connection_t *turn[TURN_CONNECTIONS]; turn_take(http, turn);)
        ;
    connection_free_closed(http);
    INVARIANT(!http->first && !http->count); /* no connection is left that points here */
    fd_close(&http->turn.fd);
    fd_close(&http->epoll);
    if (*http->socket_path)
        unlink(http->socket_path);
    owners_destroy(&http->owners);
    free(http);
    self->http = NULL;
}
