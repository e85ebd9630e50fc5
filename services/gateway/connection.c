/* One connection of the API: its phases, its bytes in and its answers out. input.c makes calls of
 * the bytes. A connection has one request at a time; what follows it on the connection waits until
 * it is answered. Each phase of a request must be over within a time of its own, however slowly
 * bytes trickle in. */
#include "common/base/invariant.h"
#include "common/base/log.h"
#include "common/base/memory.h"
#include "services/gateway/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum {
    IDLE_MS = 60000,  /* between two requests */
    WRITE_MS = 60000, /* for the client to take an answer */
    LINGER_MS = 5000, /* after the last answer of a connection, for the client to read it */
    READ_BYTES = 16384,
    INPUT_BYTES = HEAD_MAX + READ_BYTES
};

/* ---- life ---- */

static void connection_free(connection_t *self)
{
    http_t *http = self->gateway->http;

    /* the descriptor is counted, a call and the queue of turns point to the connection */
    INVARIANT(self->fd < 0 && !self->call && !self->waits);
    if (self->previous)
        self->previous->next = self->next;
    else
        http->first = self->next;
    if (self->next)
        self->next->previous = self->previous;
    input_done(self);
    owners_leave(http->owners, &self->owner);
    free(self->in);
    free(self->out);
    free(self);
}

void connection_shut(connection_t *self)
{
    if (self->fd < 0)
        return;
    INVARIANT(self->gateway->http->count > 0);
    close(self->fd);
    self->fd = -1;
    self->gateway->http->count--;
    INVARIANT(self->owner->connections > 0);
    self->owner->connections--;
    room_set_unread(self, 0);
}

void connection_set_owner(connection_t *self, const char *name)
{
    owners_t *owners = self->gateway->http->owners;
    bool open = self->fd >= 0;

    INVARIANT(!self->unread); /* what is counted for one owner is not given back to another */
    if (self->owner) {
        self->owner->connections -= open;
        owners_leave(owners, &self->owner);
    }
    self->owner = owners_join(owners, name);
    self->owner->connections += open;
}

static void log_call(const call_t *call)
{
    char path[300];

    if (call->status == 200 && (!strcmp(call->path, "/readyz") || !strcmp(call->path, "/healthz")))
        return; /* every few seconds would be noise */
    log_quote(call->path, strlen(call->path), path, sizeof(path));
    log_info("method=%s path=\"%s\" status=%u op=%s account=%s ms=%" PRId64,
             call->head ? "HEAD" : call->method, path, call->status, call->operation_id,
             *call->account ? call->account : "-", bus_mono_ms() - call->started_ms);
}

void connection_end_call(connection_t *self)
{
    INVARIANT(self->call && self->call->connection == self);
    zhashx_delete(self->gateway->calls, self->call->operation_id);
    if (self->call->has_place)
        owners_end_call(self->gateway->http->owners, self->owner);
    log_call(self->call);
    call_destroy(&self->call);
    input_done(self);
    http_resume_listeners(self->gateway->http);
}

void connection_free_closed(http_t *http)
{
    for (connection_t *one = http->first, *next; one; one = next) {
        next = one->next;
        if (one->fd < 0 && one->call && one->call->state != CALLING)
            connection_end_call(one); /* nothing was done for it yet, and nobody asks any more */
        if (one->fd < 0 && !one->call && !one->waits)
            connection_free(one);
    }
}

void connection_enter(connection_t *self, phase_t phase, int64_t ms)
{
    self->phase = phase;
    self->since_ms = bus_mono_ms();
    self->deadline_ms = self->since_ms + ms;
}

static void want_events(connection_t *self, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.ptr = self};

    if (self->fd < 0 || self->interest == events)
        return;
    if (epoll_ctl(self->gateway->http->epoll, EPOLL_CTL_MOD, self->fd, &event))
        connection_shut(self);
    self->interest = events;
}

/* ---- answers ---- */

void connection_begin_answer(connection_t *self)
{
    call_t *call = self->call;
    unsigned status_class = call->status / 100;

    INVARIANT(!self->out); /* the answer before is sent */
    /* the rest of a body is not read as the next request */
    self->closes = self->closes || !call->is_whole;
    self->gateway->metrics.answers[status_class < 6 ? status_class : 5]++;
    self->out = answer_make(call, self->closes, &self->out_len, &self->file);
    if (!self->out) { /* the answer has bytes that no JSON text can hold */
        json_decref(call->answer);
        call->answer = NULL;
        call_refuse(call, ERR_INTERNAL, NULL, NULL);
        self->out = answer_make(call, self->closes, &self->out_len, &self->file);
    }
    connection_end_call(self);
    self->sent = 0;
    if (!self->out)
        connection_shut(self);
    connection_enter(self, ANSWER, WRITE_MS);
    self->moved_ms = self->since_ms;
}

/* Write what is left of the answer. True: all of it is sent. */
static bool flush_output(connection_t *self)
{
    size_t file_len = self->file ? self->file->len : 0;

    INVARIANT(self->sent <= self->out_len + file_len);
    while (self->sent < self->out_len + file_len) {
        bool head = self->sent < self->out_len;
        const char *from =
            head ? self->out + self->sent : self->file->text + (self->sent - self->out_len);
        size_t len = head ? self->out_len - self->sent : self->out_len + file_len - self->sent;
        ssize_t n = send(self->fd, from, len, MSG_NOSIGNAL | (head && file_len ? MSG_MORE : 0));

        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0) {
            if (errno != EAGAIN)
                connection_shut(self);
            return false;
        }
        self->sent += (size_t)n;
        self->moved_ms = bus_mono_ms();
    }
    return true;
}

/* Shut the sending side and wait for the client to close: closing a socket with unread bytes resets
 * the connection, and the answer with it (RFC 9112 9.6). */
static void begin_linger(connection_t *self)
{
    shutdown(self->fd, SHUT_WR);
    connection_enter(self, LINGER, LINGER_MS);
    self->in_len = 0;
}

static void begin_next_request(connection_t *self)
{
    INVARIANT(!self->call);
    room_set_unread(self, 0);
    free(self->out);
    self->out = NULL;
    self->file = NULL;
    if (self->closes) {
        begin_linger(self);
        return;
    }
    self->began = false;
    self->empty_lines = 0;
    connection_enter(self, HEAD, IDLE_MS);
    if (!self->in_len) {
        free(self->in);
        self->in = NULL;
    }
}

/* ---- input ---- */

/* Read what has come. False: nothing more has, or the connection is at its end. */
static bool fill_input(connection_t *self)
{
    size_t room = INPUT_BYTES - self->in_len;
    ssize_t n;

    INVARIANT(self->in_len <= INPUT_BYTES);
    if (!self->in)
        self->in = malloc(INPUT_BYTES);
    if (!self->in) {
        connection_shut(self);
        return false;
    }
    n = recv(self->fd, self->in + self->in_len, room < READ_BYTES ? room : READ_BYTES, 0);
    if (n < 0) {
        if (errno != EAGAIN && errno != EINTR)
            connection_shut(self);
        return false;
    }
    if (n == 0) {
        self->ended = true;
        return false;
    }
    self->in_len += (size_t)n;
    return true;
}

static void discard_input(connection_t *self)
{
    char waste[READ_BYTES];
    ssize_t n = recv(self->fd, waste, sizeof(waste), 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        connection_shut(self);
}

void connection_advance(connection_t *self, unsigned requests)
{
    bool more = true;

    while (more && self->fd >= 0) {
        switch (self->phase) {
        case HEAD:
            if (self->in_len && !requests) {
                turn_wait(self);
                more = false;
            } else {
                more = self->in_len && input_take_head(self);
                requests -= more;
            }
            break;
        case BODY:
            more = input_take_body(self);
            break;
        case CALL:
        case LINGER:
            more = false;
            break;
        case ANSWER:
            more = flush_output(self);
            if (more)
                begin_next_request(self);
            else if (self->fd >= 0)
                room_set_unread(self, self->out_len);
            break;
        }
    }
    if (self->ended && !self->waits && (self->phase == HEAD || self->phase == BODY))
        connection_shut(self); /* the client closed before its request was complete */
    want_events(self, self->phase == CALL || self->waits ? 0
                      : self->phase == ANSWER            ? EPOLLOUT
                                                         : EPOLLIN);
}

void connection_on_event(connection_t *self, uint32_t events)
{
    if (self->fd < 0)
        return;
    /* no event was asked for in these states but the peer's end */
    if (self->phase == CALL || self->waits) {
        connection_shut(self);
    } else if (self->phase == LINGER) {
        discard_input(self);
    } else {
        if (self->phase != ANSWER && events & (EPOLLIN | EPOLLHUP | EPOLLERR))
            while (fill_input(self) && self->in_len < READ_BYTES)
                ;
        connection_advance(self, TURN_REQUESTS);
    }
}

void connection_on_late(connection_t *self)
{
    self->gateway->metrics.cut_off++;
    if ((self->phase == HEAD && self->in_len) || self->phase == BODY) {
        input_refuse(self, ERR_TOO_SLOW, NULL);
        connection_advance(self, 0);
    } else {
        connection_shut(self);
    }
}

void connection_adopt(gateway_t *gateway, int fd, const struct sockaddr_in *from, bool proxy)
{
    connection_t *self = memory_new(sizeof(*self), "a connection");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = self};
    char address[INET_ADDRSTRLEN] = "proxy";
    http_t *http = gateway->http;
    int on = 1;

    if (epoll_ctl(http->epoll, EPOLL_CTL_ADD, fd, &event)) {
        free(self);
        close(fd);
        return;
    }
    /* fails on a Unix socket, which needs none */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    self->gateway = gateway;
    self->fd = fd;
    self->interest = EPOLLIN;
    self->proxy = self->trusted = proxy;
    self->address = proxy ? 0 : from->sin_addr.s_addr;
    if (!proxy)
        inet_ntop(AF_INET, &from->sin_addr, address, sizeof(address));
    connection_set_owner(self, address);
    self->born_ms = bus_mono_ms();
    connection_enter(self, HEAD, CONNECTION_READ_MS);
    self->next = http->first;
    if (http->first)
        http->first->previous = self;
    http->first = self;
    http->count++;
    /* read the request now: a connection without one is the first to be closed for room */
    connection_on_event(self, EPOLLIN);
}
