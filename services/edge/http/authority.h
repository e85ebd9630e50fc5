/* host[:port] of a request (RFC 9110 4.2, RFC 9112 3.2), checked before anything is chosen by it.
 * No nginx in here. */
#pragma once

#include <stddef.h>

/* Split host[:port] into the host's length and the port's number, 0 where there is none. The host
 * is made of letters, digits, '-', '_' and '.', at most 254 bytes, or is an IPv6 literal in
 * brackets; the port is 1 to 65535, or empty behind its colon. 0, or -1: text is not of this
 * form. */
int authority_split(const char *text, size_t len, size_t *ret_host_len, unsigned *ret_port);
