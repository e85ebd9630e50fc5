/* User information in a URL or an authority (RFC 3986 3.2.1): it may hold a password. No nginx in
 * here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Where text has user information, its '@' included: from *ret_begin up to *ret_end. text is a URL,
 * or begins with its authority. all: text is no valid URL, so that nobody knows where its authority
 * ends: then the last '@' of all ends the user information. False: it has none. */
bool userinfo_find(const char *text, size_t len, bool all, size_t *ret_begin, size_t *ret_end);
