/* A delta of the session log: which sessions have ended. No nginx and no sockets in here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { SESSION_ENTRY_HEX = 64, SESSION_ENTRY_HASH = 32 };

/* The session whose cookie's value has this SHA-256 ended: the hash, and as text. */
typedef void (*session_ended_fn)(const unsigned char hash[SESSION_ENTRY_HASH],
                                 const char hex[SESSION_ENTRY_HEX]);

/* Read a body, [kind, id, nil]..., and call ended for each session, in their order. False: it is no
 * array of entries, and ended was called for none. *ret_others: entries that say something else;
 * what they say of sessions is not known here. */
bool session_entries_read(const void *body, size_t len, session_ended_fn ended, size_t *ret_others);
