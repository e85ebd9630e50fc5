/* host[:port] of a request (RFC 9110 4.2, RFC 9112 3.2), checked before anything is chosen by it.
 * No nginx in here. */
#pragma once

#include <stddef.h>

/* Where the host ends, and the port: 0 when there is none. The host is made of letters, digits,
 * '-', '_' and '.', at most 254 bytes, or is an IPv6 literal in brackets; the port is a number from
 * 1 to 65535, or nothing behind its colon. 0, or -1: it is neither. */
int authority_split(const char *text, size_t len, size_t *ret_host_len, unsigned *ret_port);
