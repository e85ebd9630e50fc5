/* In a file of its own, because the C library's struct tcp_info lacks tcpi_bytes_received, and its
 * header cannot be included together with the kernel's. */
#include "common/out/tcp.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

uint64_t tcp_bytes_received(int fd)
{
    struct tcp_info info = {0};
    socklen_t len = sizeof(info);

    return getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &len) ? 0 : info.tcpi_bytes_received;
}

int tcp_local_port(int fd)
{
    struct sockaddr_in6 address = {0}; /* the port has the same offset in sockaddr_in */
    socklen_t len = sizeof(address);

    if (getsockname(fd, (struct sockaddr *)&address, &len))
        return -1;
    return ntohs(address.sin6_port);
}
