/* What the kernel knows of a connection. */
#pragma once

#include <stdint.h>

/* Bytes that came since it was made, TLS and all; 0: unknown. */
uint64_t tcp_bytes_received(int fd);

/* The port at this end; -1: unknown. */
int tcp_local_port(int fd);
