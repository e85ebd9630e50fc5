/* Request paths, normalised once: what is matched is what goes upstream. No dependencies, so that
 * the edge and the route service compile the same code.
 *
 * RFC 3986 6.2.2: escapes upper-cased, unreserved characters unescaped, dot segments removed; then,
 * because upstreams do it too: repeated slashes merged and characters that a URI cannot hold
 * escaped. Refused: no leading slash, ".." above the root (also behind repeated slashes), malformed
 * escapes, %00 and other control characters (raw or escaped), '#', raw backslash, invalid (so also
 * over-long) UTF-8, and a dot segment hidden behind an escaped slash or backslash or a ';'
 * parameter, which some upstreams would resolve. */
#pragma once

#include <stddef.h>

/* Bytes that path_normalize needs for this path, refused or not: at most 3 * len + 3. */
size_t path_room(const char *path, size_t len);
/* Normalise the path in [path, path+len) into out, without a NUL at its end. 0 | -1: it is refused,
 * or does not fit. */
int path_normalize(const char *path, size_t len, char *out, size_t size, size_t *ret_len);
