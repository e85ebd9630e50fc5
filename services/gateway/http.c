/* The API's connections: an epoll of their own inside the gateway's reactor. A connection has one
 * request at a time; what follows it on the connection waits until it is answered. Each phase of a
 * request must be over within a time of its own, however slowly bytes trickle in, and when the
 * table of connections is full those without a valid key are closed to make room. In one turn of
 * the loop a connection gets a few requests; then the other connections, the services' replies and
 * the timers have their turn. */
#include "common/base/memory.h"
#include "common/base/cleanup.h"
#include "common/base/files.h"
#include "common/base/log.h"
#include "services/gateway/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>

enum {
    READ_MS =
        /* from a request's first byte to its last, and from the connection to its first byte */
    15000,
    IDLE_MS = 60000,  /* between two requests */
    WRITE_MS = 60000, /* for the client to take an answer */
    LINGER_MS = 5000, /* after the last answer of a connection, for the client to read it */
    READ_BYTES = 16384,
    ACCEPTS_MAX = 64,   /* connections that are accepted before the loop goes on */
    EMPTY_LINES_MAX = 8 /* empty lines before a request (RFC 9112 2.2) */
};

/* ---- one connection's life ---- */

static void release_request(connection_t *self)
{
    if (self->head_text) /* the head has an API key in it */
        explicit_bzero(self->head_text, self->head_len);
    free(self->head_text);
    self->head_text = NULL;
    memset(&self->head, 0, sizeof(self->head));
    if (self->body) /* the body may have a private key in it */
        explicit_bzero(self->body, self->body_len);
    free(self->body);
    self->body = NULL;
    self->body_len = self->body_size = 0;
    memset(&self->chunks, 0, sizeof(self->chunks));
}

static void free_connection(connection_t *self)
{
    http_t *http = self->gateway->http;

    if (self->previous)
        self->previous->next = self->next;
    else
        http->first = self->next;
    if (self->next)
        self->next->previous = self->previous;
    release_request(self);
    free(self->in);
    free(self->out);
    free(self);
}

void connection_shut(connection_t *self)
{
    if (self->fd < 0)
        return;
    close(self->fd);
    self->fd = -1;
    self->gateway->http->count--;
}

/* Free the connections that were closed. One with a call in progress stays until its answer, which
 * is thrown away. */
static void free_closed(http_t *http)
{
    for (connection_t *one = http->first, *next; one; one = next) {
        next = one->next;
        if (one->fd < 0 && !one->call && !one->waits)
            free_connection(one);
    }
}

static void enter_phase(connection_t *self, phase_t phase, int64_t ms)
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

static void watch_listener(http_t *http, listener_t *listener)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = listener};

    if (listener->fd >= 0 && !epoll_ctl(http->epoll, EPOLL_CTL_ADD, listener->fd, &event))
        listener->paused = false;
}

/* Listeners stop while there is no room: new connections wait in the kernel's queue. */
static void resume_listeners(http_t *http)
{
    for (size_t i = 0; i < LEN(http->listeners); i++)
        if (http->listeners[i].paused)
            watch_listener(http, &http->listeners[i]);
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

static void end_call(connection_t *self)
{
    zhashx_delete(self->gateway->calls, self->call->operation_id);
    log_call(self->call);
    call_destroy(&self->call);
    release_request(self);
    resume_listeners(self->gateway->http);
}

/* Start to send the call's answer. */
static void begin_answer(connection_t *self)
{
    call_t *call = self->call;
    unsigned status_class = call->status / 100;

    self->gateway->metrics.answers[status_class < 6 ? status_class : 5]++;
    self->out = answer_make(call, self->closes, &self->out_len, &self->file);
    if (!self->out) { /* the answer has bytes that no JSON text can hold */
        json_decref(call->answer);
        call->answer = NULL;
        call_refuse(call, ERR_INTERNAL, NULL, NULL);
        self->out = answer_make(call, self->closes, &self->out_len, &self->file);
    }
    end_call(self);
    self->sent = 0;
    if (!self->out)
        connection_shut(self);
    enter_phase(self, ANSWER, WRITE_MS);
}

/* ---- reading ---- */

static call_t *new_call(connection_t *self)
{
    call_t *call = memory_new(sizeof(*call), "a call");
    struct in_addr address = {.s_addr = self->address};

    call->gateway = self->gateway;
    call->connection = self;
    call->started_ms = bus_mono_ms();
    id_make("op", call->operation_id);
    snprintf(call->method, sizeof(call->method), "-");
    call->base = config_str(
        self->gateway->config,
        self->proxy && *config_str(self->gateway->config, "proxy-url") ? "proxy-url" : "api-url");
    if (!self->proxy)
        inet_ntop(AF_INET, &address, call->ip, sizeof(call->ip));
    self->call = call;
    self->gateway->metrics.requests++;
    return call;
}

/* Answer bytes that are no request with an error, and read nothing behind them. */
static void refuse_request(connection_t *self, int code, const char *why)
{
    call_t *call = new_call(self);

    self->closes = true;
    self->in_len = 0;
    call->path = memory_copy("-", "a path");
    self->gateway->metrics.malformed++;
    call_refuse(call, code, NULL, why);
    begin_answer(self);
}

/* The client's address: over the proxy's socket its X-Forwarded-For says it, which must be exactly
 * one address; else it is the peer's. False: refused. */
static bool set_client(connection_t *self, call_t *call)
{
    const char *client = framing_get(&self->head, "X-Forwarded-For");
    unsigned char address[16];
    size_t clients = 0;

    if (!self->proxy)
        return true;
    for (size_t i = 0; i < self->head.header_count; i++)
        clients += !strcasecmp(self->head.headers[i].name, "X-Forwarded-For");
    if (clients != 1
        || (inet_pton(AF_INET, client, address) != 1 && inet_pton(AF_INET6, client, address) != 1))
        return false;
    snprintf(call->ip, sizeof(call->ip), "%s", client);
    return true;
}

static void begin_call(connection_t *self)
{
    call_t *call = new_call(self);
    char *query = strchr(self->head.target, '?');

    self->phase = CALL;
    self->closes = self->head.closes;
    if (query)
        *query++ = '\0';
    call->path = memory_copy(self->head.target, "a path");
    query_unescape(call->path);
    call->query_text = query;
    call->head = !strcmp(self->head.method, "HEAD");
    snprintf(call->method, sizeof(call->method), "%s", call->head ? "GET" : self->head.method);
    call->body = self->body;
    call->body_len = self->body_len;
    path_match(call->method, call->path, &call->target);
    if (set_client(self, call))
        call_begin(call);
    else
        call_refuse(call, ERR_MALFORMED, NULL,
                    "The proxy must name its client in one X-Forwarded-For.");
    if (call->state == ANSWERED)
        begin_answer(self);
}

/* Drop the first len bytes of the input: the head or chunk that was read. */
static void consume_input(connection_t *self, size_t len)
{
    self->in_len -= len;
    memmove(self->in, self->in + len, self->in_len);
}

static bool add_body(connection_t *self, const char *data, size_t len)
{
    size_t size = self->body_size ? self->body_size : 4096;
    char *grown;

    if (self->body_len + len > BODY_MAX)
        return false;
    while (size < self->body_len + len)
        size *= 2;
    if (size != self->body_size) {
        /* realloc would leave the old bytes, which may hold a key, on the heap */
        grown = malloc(size);
        if (!grown)
            return false;
        if (self->body) {
            memcpy(grown, self->body, self->body_len);
            explicit_bzero(self->body, self->body_len);
            free(self->body);
        }
        self->body = grown;
        self->body_size = size;
    }
    memcpy(self->body + self->body_len, data, len);
    self->body_len += len;
    return true;
}

/* Skip empty lines before a request (RFC 9112 2.2); a CR whose LF has not come yet may be one. They
 * begin no request, so they do not move its deadline. False: there are too many. */
static bool skip_empty_lines(connection_t *self)
{
    size_t len = 0;

    if (self->began)
        return true;
    while (self->in_len - len >= 2 && memcmp(self->in + len, "\r\n", 2) == 0
           && self->empty_lines <= EMPTY_LINES_MAX) {
        self->empty_lines++;
        len += 2;
    }
    if (len)
        consume_input(self, len);
    if (self->in_len && (self->in_len > 1 || *self->in != '\r')) {
        self->began = true;
        enter_phase(self, HEAD, READ_MS);
    }
    return self->empty_lines <= EMPTY_LINES_MAX;
}

/* Read the head of the next request. True: it was there, and the connection's state has changed. */
static bool take_head(connection_t *self)
{
    static const char go_on[] = "HTTP/1.1 100 Continue\r\n\r\n";
    const char *why;
    size_t len;
    int r;

    if (!skip_empty_lines(self)) {
        refuse_request(self, ERR_MALFORMED, "There are too many empty lines before the request.");
        return true;
    }
    if (!self->began)
        return false;
    r = framing_scan(self->in, self->in_len, &self->scanned, &len, &why);
    if (!r && !len)
        return false;
    if (!r) {
        self->head_text = memory_need(malloc(len + 1), "the head of a request");
        memcpy(self->head_text, self->in, len);
        self->head_text[len] = '\0';
        self->head_len = len;
        consume_input(self, len);
        self->scanned = 0;
        r = framing_parse(self->head_text, len, &self->head, &why);
    }
    if (!r && self->head.content_length > BODY_MAX)
        r = ERR_BODY_TOO_LARGE;
    if (r) {
        refuse_request(self, r, why);
        return true;
    }
    if (!self->head.chunked && !self->head.content_length) {
        begin_call(self);
        return true;
    }
    self->phase = BODY; /* the deadline covers head and body together */
    if (self->head.expects_continue && !self->in_len)
        send(self->fd, go_on, sizeof(go_on) - 1,
             MSG_NOSIGNAL); /* best effort: clients go on after a second without it */
    return true;
}

static bool take_body(connection_t *self)
{
    const char *why = NULL;
    size_t used, len;
    bool done = false;
    int r = 0;

    if (!self->in_len)
        return false;
    if (self->head.chunked) {
        r = chunks_take(&self->chunks, self->in, self->in_len, &used, &len, &done, &why);
    } else {
        size_t left = (size_t)self->head.content_length - self->body_len;

        used = len = self->in_len < left ? self->in_len : left;
        done = len == left;
    }
    if (!r && !add_body(self, self->in, len))
        r = ERR_BODY_TOO_LARGE;
    if (r) {
        refuse_request(self, r, why);
        return true;
    }
    consume_input(self, used);
    if (done)
        begin_call(self);
    return done;
}

static bool fill_input(connection_t *self)
{
    size_t room = HEAD_MAX + READ_BYTES - self->in_len;
    ssize_t n;

    if (!self->in)
        self->in = memory_need(malloc(HEAD_MAX + READ_BYTES), "a connection's input");
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

/* ---- writing ---- */

/* Write what is left of the answer. True: all of it is sent. */
static bool flush_output(connection_t *self)
{
    size_t file_len = self->file ? self->file->len : 0;

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
    }
    return true;
}

/* Shut the sending side and wait for the client to close: closing a socket with unread bytes resets
 * the connection, and the answer with it (RFC 9112 9.6). */
static void begin_linger(connection_t *self)
{
    shutdown(self->fd, SHUT_WR);
    enter_phase(self, LINGER, LINGER_MS);
    self->in_len = 0;
}

static void next_request(connection_t *self)
{
    free(self->out);
    self->out = NULL;
    self->file = NULL;
    if (self->closes) {
        begin_linger(self);
        return;
    }
    self->began = false;
    self->empty_lines = 0;
    enter_phase(self, HEAD, IDLE_MS);
    if (!self->in_len) {
        free(self->in);
        self->in = NULL;
    }
}

static void discard_input(connection_t *self)
{
    char waste[READ_BYTES];
    ssize_t n = recv(self->fd, waste, sizeof(waste), 0);

    if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
        connection_shut(self);
}

/* Move the connection on as far as possible without waiting, beginning at most so many more
 * requests. */
static void advance_connection(connection_t *self, unsigned requests)
{
    bool more = true;

    while (more && self->fd >= 0) {
        switch (self->phase) {
        case HEAD:
            if (self->in_len && !requests) {
                turn_wait(self);
                more = false;
            } else {
                more = self->in_len && take_head(self);
                requests -= more;
            }
            break;
        case BODY:
            more = take_body(self);
            break;
        case CALL:
        case LINGER:
            more = false;
            break;
        case ANSWER:
            more = flush_output(self);
            if (more)
                next_request(self);
            break;
        }
    }
    if (self->ended && !self->waits && (self->phase == HEAD || self->phase == BODY))
        connection_shut(self); /* the client closed before its request was complete */
    want_events(self, self->phase == CALL || self->waits ? 0
                      : self->phase == ANSWER            ? EPOLLOUT
                                                         : EPOLLIN);
}

void http_resume(call_t *call)
{
    connection_t *self = call->connection;

    if (self->fd < 0) {
        end_call(self);
        return; /* free_closed frees it */
    }
    begin_answer(self);
    advance_connection(self,
                       0); /* no new request: one at a time, however fast the services answer */
}

const char *http_header(const call_t *call, const char *name)
{
    return framing_get(&call->connection->head, name);
}

void http_trust(call_t *call)
{
    call->connection->trusted = true;
}

static void on_connection_event(connection_t *self, uint32_t events)
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
        advance_connection(self, TURN_REQUESTS);
    }
}

/* ---- accepting ---- */

static void adopt_connection(gateway_t *gateway, int fd, const struct sockaddr_in *from, bool proxy)
{
    connection_t *self = memory_new(sizeof(*self), "a connection");
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = self};
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
    self->born_ms = bus_mono_ms();
    enter_phase(self, HEAD, READ_MS);
    self->next = http->first;
    if (http->first)
        http->first->previous = self;
    http->first = self;
    http->count++;
    /* read the request now: a connection without one is the first to be closed for room */
    on_connection_event(self, EPOLLIN);
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
        adopt_connection(gateway, fd, &from, listener->proxy);
    }
}

static void run_waiting(http_t *http)
{
    connection_t *turn[TURN_CONNECTIONS];
    size_t n = turn_take(http, turn);

    for (size_t i = 0; i < n; i++)
        if (turn[i]->fd >= 0)
            advance_connection(turn[i], TURN_REQUESTS);
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
            on_connection_event(what, events[i].events);
    }
    free_closed(http);
    return 0;
}

/* Close a connection whose time for its phase is over; where an answer can still be sent, send 408
 * first. */
static void on_late(connection_t *self)
{
    self->gateway->metrics.cut_off++;
    if ((self->phase == HEAD && self->in_len) || self->phase == BODY) {
        refuse_request(self, ERR_TOO_SLOW, NULL);
        advance_connection(self, 0);
    } else {
        connection_shut(self);
    }
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
            on_late(one);
    resume_listeners(http);
    free_closed(http);
    return 0;
}

size_t http_metrics(const gateway_t *self, char *out, size_t size)
{
    return (size_t)snprintf(out, size,
                            "postern_gateway_connections %zu\n"
                            "postern_gateway_clients_cut_off_total %" PRIu64 "\n"
                            "postern_gateway_connections_evicted_total %" PRIu64 "\n"
                            "postern_gateway_malformed_requests_total %" PRIu64 "\n",
                            self->http ? self->http->count : 0, self->metrics.cut_off,
                            self->metrics.evicted, self->metrics.malformed);
}

/* ---- lifecycle ---- */

int http_start(gateway_t *self)
{
    const char *socket_path = config_str(self->config, "proxy-socket");
    http_t *http = memory_new(sizeof(*http), "the listeners");
    int r = 0;

    files_raise(CONNECTIONS_MAX
                + 512); /* the table of connections is the bound, not the limit on open files */
    self->http = http;
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
    http->timer = zloop_timer(self->loop, 1000, 0, on_deadlines, self);
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
    free_closed(http);
    fd_close(&http->turn.fd);
    fd_close(&http->epoll);
    if (*http->socket_path)
        unlink(http->socket_path);
    free(http);
    self->http = NULL;
}
