/* The upstream of the benches, at as little cost as can be, so that the engine that is measured is
 * the slowest part. GET /<n> is answered with n bytes, a target without a number with 1 KiB; of a
 * body that a request has with Content-Length all is read first. Takes requests one at a time on a
 * connection, as proxies send them. upstream PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HEAD = 16384, BODY = 1024, BODY_MAX = 16 << 20, READ = 256 << 10 };
enum { EVENTS = 256, FDS = 65536 };

/* What a connection still has to read of a request's body, and to write of an answer. */
typedef struct {
    size_t reading, writing, asked;
    bool watched_for_write;
} state_t;

static state_t states[FDS];
static char body[BODY_MAX], in[READ];
static int epoll;

static int listen_on(int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), one = 1;

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    if (bind(fd, (struct sockaddr *)&at, sizeof(at)) || listen(fd, 4096)) {
        perror("bench upstream");
        exit(1);
    }
    return fd;
}

static void watch(int fd, int op, bool write)
{
    struct epoll_event event = {.events = write ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.fd = fd};

    epoll_ctl(epoll, op, fd, &event);
    states[fd].watched_for_write = write;
}

static void accept_all(int listener)
{
    int fd, one = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        if (fd >= FDS) {
            close(fd);
            continue;
        }
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        memset(&states[fd], 0, sizeof(states[fd]));
        watch(fd, EPOLL_CTL_ADD, false);
    }
}

/* What is left of the answer's body, as much as the socket takes. false: the connection broke. */
static bool send_body(int fd)
{
    state_t *state = &states[fd];
    ssize_t n;

    while (state->writing) {
        n = send(fd, body, state->writing, MSG_NOSIGNAL);
        if (n < 0 && errno != EAGAIN)
            return false;
        if (n < 0)
            break;
        state->writing -= (size_t)n;
    }
    if ((state->writing != 0) != state->watched_for_write)
        watch(fd, EPOLL_CTL_MOD, state->writing != 0);
    return true;
}

/* Head and the body's first bytes in one packet. */
static bool answer(int fd)
{
    static char out[256 + BODY];
    state_t *state = &states[fd];
    size_t first = state->asked < BODY ? state->asked : BODY;
    int head = snprintf(out, 256,
                        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
                        "Content-Type: text/plain\r\nContent-Length: %zu\r\n"
                        "Connection: keep-alive\r\n\r\n",
                        state->asked);
    size_t len = (size_t)head + first;

    memcpy(out + head, body, first);
    if (send(fd, out, len, MSG_NOSIGNAL | (state->asked > first ? MSG_MORE : 0)) != (ssize_t)len)
        return false;
    state->writing = state->asked - first;
    return send_body(fd);
}

/* Of a whole head: what it asks for, and how much comes behind it. */
static void read_head(state_t *state, const char *end, size_t behind)
{
    const char *number = strchr(in, '/'), *length = strcasestr(in, "\r\ncontent-length:");
    size_t left = length && length < end ? strtoul(length + 17, NULL, 10) : 0;

    state->asked = number ? strtoul(number + 1, NULL, 10) : 0;
    if (state->asked == 0 || state->asked > BODY_MAX)
        state->asked = BODY;
    state->reading = left > behind ? left - behind : 0;
}

static bool serve(int fd)
{
    state_t *state = &states[fd];
    ssize_t n;
    char *end;

    while ((n = recv(fd, in, state->reading ? READ - 1 : HEAD, 0)) > 0) {
        if (state->reading) {
            state->reading -= (size_t)n < state->reading ? (size_t)n : state->reading;
        } else {
            in[n] = '\0';
            end = strstr(in, "\r\n\r\n");
            if (!end) /* of proxies, heads come whole */
                return false;
            read_head(state, end, (size_t)(in + n - end - 4));
        }
        if (state->reading == 0)
            return answer(fd);
    }
    return n < 0 && errno == EAGAIN;
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 8080), fd;

    epoll = epoll_create1(0);
    memset(body, 'x', sizeof(body));
    watch(listener, EPOLL_CTL_ADD, false);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; i++) {
            fd = events[i].data.fd;
            if (fd == listener)
                accept_all(listener);
            else if ((events[i].events & EPOLLOUT && !send_body(fd))
                     || (events[i].events & ~(uint32_t)EPOLLOUT && !states[fd].writing
                         && !serve(fd)))
                close(fd);
        }
    }
}
