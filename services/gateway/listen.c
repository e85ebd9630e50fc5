/* The sockets that the API listens on. */
#include "common/base/cleanup.h"
#include "common/base/log.h"
#include "services/gateway/connection.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

static int take_fd(int *fd)
{
    int taken = *fd;

    *fd = -1;
    return taken;
}

int listen_tcp(const char *host, uint16_t port, int *ret_fd)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    _cleanup_(fd_close) int fd = -1;
    char text[160];
    /* seconds that the kernel keeps a connection which says nothing, before it is accepted */
    int on = 1, silent_s = 5;
    /* of an answer that is not read the kernel keeps no more than this, or twice this; the rest
     * waits here, where it is counted (room.c) */
    int send_bytes = 256 << 10;

    if (inet_pton(AF_INET, host, &address.sin_addr) != 1)
        return fault(-EINVAL, "http-host must be an IPv4 address");
    fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on))
        || setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &send_bytes, sizeof(send_bytes))
        || setsockopt(fd, IPPROTO_TCP, TCP_DEFER_ACCEPT, &silent_s, sizeof(silent_s))
        || bind(fd, (struct sockaddr *)&address, sizeof(address)) || listen(fd, SOMAXCONN)) {
        snprintf(text, sizeof(text), "listen on %s:%d (is the port taken?)", host, port);
        return fault(-errno, text);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}

static bool is_answered(const struct sockaddr_un *address)
{
    _cleanup_(fd_close) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

    return fd >= 0 && !connect(fd, (const struct sockaddr *)address, sizeof(*address));
}

int listen_proxy(const char *path, int *ret_fd)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    _cleanup_(fd_close) int fd = -1;
    char text[200];

    if (strlen(path) >= sizeof(address.sun_path))
        return fault(-ENAMETOOLONG, "proxy-socket: a Unix socket's path has at most 107 bytes");
    snprintf(address.sun_path, sizeof(address.sun_path), "%s", path);
    if (is_answered(&address)) {
        snprintf(text, sizeof(text), "proxy-socket %.120s is another gateway's", path);
        return fault(-EADDRINUSE, text);
    }
    unlink(path); /* left by a gateway that was killed */
    fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0 || fchmod(fd, 0660) || bind(fd, (struct sockaddr *)&address, sizeof(address))
        || chmod(path, 0660) || listen(fd, SOMAXCONN)) {
        snprintf(text, sizeof(text), "listen on proxy-socket %.120s", path);
        return fault(-errno, text);
    }
    *ret_fd = take_fd(&fd);
    return 0;
}
