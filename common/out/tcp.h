/* Facts about a TCP connection from the kernel. */
#pragma once

#include <stdint.h>

/* Bytes received over the connection, with the overhead of TLS; 0: unknown. */
uint64_t tcp_bytes_received(int fd);

/* The local port; -1: unknown. */
int tcp_local_port(int fd);
