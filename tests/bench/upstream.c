/* The upstream of the benches, at as little cost as can be, so that the engine that is measured is
 * the slowest part. GET /any/<n> is answered with n bytes, without a number with 1 KiB; of a
 * body that a request has with Content-Length all is read first. Who asks for a WebSocket gets one:
 * each message is answered, when all of it was read, with a binary one of as many bytes. Takes
 * requests and messages one at a time on a connection, as proxies and the benches' client send
 * them. With FILE bodies are its first MiB, again and again, else they are the letter x.
 * upstream PORT [FILE] */
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

#include "awake.h"

enum { HEAD = 16384, BODY = 1024, PIECE = 1 << 20, ASKED_MAX = 1 << 30, READ = 256 << 10 };
enum { EVENTS = 256, FDS = 65536 };

/* What a connection still has to read of a body or a message, and to write of an answer. */
typedef struct {
    size_t reading, writing, asked;
    bool watched_for_write, upgraded;
} state_t;

static state_t states[FDS];
static char body[PIECE], in[READ];
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
        size_t at = (state->asked - state->writing) % PIECE;
        size_t most = PIECE - at;

        n = send(fd, body + at, state->writing < most ? state->writing : most, MSG_NOSIGNAL);
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

/* The head of a message from a server: RFC 6455 5.2. */
static size_t message_head(char *out, size_t len)
{
    size_t size = len < 126 ? 2 : len < 65536 ? 4 : 10;

    out[0] = (char)0x82;
    out[1] = (char)(size == 2 ? len : size == 4 ? 126 : 127);
    for (size_t i = 2; i < size; i++)
        out[i] = (char)(len >> 8 * (size - 1 - i));
    return size;
}

static size_t answer_head(char *out, const state_t *state)
{
    if (state->upgraded)
        return message_head(out, state->asked);
    return (size_t)snprintf(
        out, 256,
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        "Content-Type: text/plain\r\nContent-Length: %zu\r\n"
        "Connection: keep-alive\r\n\r\n",
        state->asked);
}

/* Head and the body's first bytes in one packet. */
static bool answer(int fd)
{
    static char out[256 + BODY];
    state_t *state = &states[fd];
    size_t first = state->asked < BODY ? state->asked : BODY;
    size_t head = answer_head(out, state), len = head + first;

    memcpy(out + head, body, first);
    if (send(fd, out, len, MSG_NOSIGNAL | (state->asked > first ? MSG_MORE : 0)) != (ssize_t)len)
        return false;
    state->writing = state->asked - first;
    return send_body(fd);
}

/* Of a whole head: what it asks for, and how much comes behind it. */
static void read_head(state_t *state, const char *end, size_t behind)
{
    const char *target = strchr(in, '/'), *space = target ? strchr(target, ' ') : NULL,
               *length = strcasestr(in, "\r\ncontent-length:");
    size_t left = length && length < end ? strtoul(length + 17, NULL, 10) : 0;

    if (space) /* the last part of the path */
        target = memrchr(target, '/', (size_t)(space - target));
    state->asked = target ? strtoul(target + 1, NULL, 10) : 0;
    if (state->asked == 0 || state->asked > ASKED_MAX)
        state->asked = BODY;
    state->reading = left > behind ? left - behind : 0;
}

/* The same for the head of a message from a client, which has a mask. 0: it is not all there. */
static size_t read_message_head(state_t *state, size_t n)
{
    const unsigned char *p = (const unsigned char *)in;
    size_t len = n > 1 ? p[1] & 127 : 0, size = len < 126 ? 2 : len == 126 ? 4 : 10;

    if (n < size + 4)
        return 0;
    if (size > 2)
        len = 0;
    for (size_t i = 2; i < size; i++)
        len = len << 8 | p[i];
    state->asked = len;
    state->reading = len > n - size - 4 ? len - (n - size - 4) : 0;
    return size + 4;
}

/* The key is always that of the benches' client, which is the example of RFC 6455 1.3. */
static bool upgrade(int fd)
{
    static const char head[] = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n"
                               "Connection: Upgrade\r\n"
                               "Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n";

    states[fd].upgraded = true;
    return send(fd, head, sizeof(head) - 1, MSG_NOSIGNAL) == (ssize_t)sizeof(head) - 1;
}

/* Of proxies, heads come whole. false: this one did not, or asks for a WebSocket. */
static bool begin(state_t *state, size_t n, bool *asks_upgrade)
{
    char *end;

    if (state->upgraded)
        return read_message_head(state, n) > 0;
    in[n] = '\0';
    end = strstr(in, "\r\n\r\n");
    *asks_upgrade = end && strcasestr(in, "\r\nupgrade: websocket");
    if (!end || *asks_upgrade)
        return false;
    read_head(state, end, (size_t)(in + n - end - 4));
    return true;
}

static bool serve(int fd)
{
    state_t *state = &states[fd];
    bool asks_upgrade = false;
    ssize_t n;

    while ((n = recv(fd, in, state->reading ? READ - 1 : HEAD, 0)) > 0) {
        if (state->reading)
            state->reading -= (size_t)n < state->reading ? (size_t)n : state->reading;
        else if (!begin(state, (size_t)n, &asks_upgrade))
            return asks_upgrade && upgrade(fd);
        if (state->reading == 0)
            return answer(fd);
    }
    return n < 0 && errno == EAGAIN;
}

static void fill_body(const char *path)
{
    FILE *file = path ? fopen(path, "r") : NULL;

    memset(body, 'x', sizeof(body));
    if (path && (!file || fread(body, 1, sizeof(body), file) != sizeof(body))) {
        fprintf(stderr, "bench upstream: %s has no MiB that can be read\n", path);
        exit(1);
    }
    if (file)
        fclose(file);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 8080), fd;

    epoll = epoll_create1(0);
    awake_start();
    fill_body(argc > 2 ? argv[2] : NULL);
    watch(listener, EPOLL_CTL_ADD, false);
    for (;;) {
        int n = awake_wait(epoll, events, EVENTS, -1);

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
