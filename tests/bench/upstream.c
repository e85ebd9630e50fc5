/* The upstream of the benches: 1 KiB for every request, at as little cost as can be, so that the
 * engine that is measured is the slowest part. Takes requests without a body, one at a time on a
 * connection, as proxies send them. upstream PORT */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BODY = 1024, EVENTS = 256 };

static char answer[256 + BODY];
static size_t answer_len;

static void make_answer(void)
{
    answer_len = (size_t)snprintf(
        answer, sizeof(answer),
        "HTTP/1.1 200 OK\r\nServer: bench\r\nDate: Thu, 01 Jan 2026 00:00:00 GMT\r\n"
        "Content-Type: text/plain\r\nContent-Length: %d\r\n"
        "Connection: keep-alive\r\n\r\n",
        BODY);
    memset(answer + answer_len, 'x', BODY);
    answer_len += BODY;
}

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

static void watch(int epoll, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};

    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
}

static void accept_all(int epoll, int listener)
{
    int fd, one = 1;

    while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
        watch(epoll, fd);
    }
}

static void serve(int fd)
{
    char request[16384];
    ssize_t n = recv(fd, request, sizeof(request), 0);

    if (n <= 0)
        close(fd);
    else if (n >= 4 && !memcmp(request + n - 4, "\r\n\r\n", 4)
             && send(fd, answer, answer_len, MSG_NOSIGNAL) != (ssize_t)answer_len)
        close(fd);
}

int main(int argc, char **argv)
{
    struct epoll_event events[EVENTS];
    int listener = listen_on(argc > 1 ? atoi(argv[1]) : 8080), epoll = epoll_create1(0);

    make_answer();
    watch(epoll, listener);
    for (;;) {
        int n = epoll_wait(epoll, events, EVENTS, -1);

        for (int i = 0; i < n; i++)
            if (events[i].data.fd == listener)
                accept_all(epoll, listener);
            else
                serve(events[i].data.fd);
    }
}
