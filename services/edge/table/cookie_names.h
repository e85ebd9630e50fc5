/* Which cookies are between browsers and an edge alone: session and nonce of sign-in modules,
 * whatever prefix they have, or had. A browser sends them to every path of the host, and whoever
 * has a session's value can act as its person, so no upstream of any route gets one. What browsers
 * have is older than any configuration: a module had another prefix before, or the host was another
 * edge's. So a cookie that looks like one of ours is one, whoever set it. No nginx in here. */
#pragma once

#include "services/edge/table/strmap.h"

#include <stdbool.h>
#include <stddef.h>

enum {
    COOKIE_NAME_MAX = 192,  /* longer names are of no cookie of ours */
    COOKIE_NONCE_DIGITS = 8 /* hexadecimal, behind a nonce's name and a dot, of versions before */
};

/* Write a cookie's name as whoever reads it may take it: without case, %5F decoded, and with '.'
 * for '_' and for a space, as PHP has it. Returns its length; 0: it has none, or is longer than
 * out. */
size_t cookie_name_fold(char out[COOKIE_NAME_MAX], const char *name, size_t len);

/* A route of the edge has, or has no longer, a module with this cookie_prefix; *self is the edge's,
 * NULL: there is none. */
void cookie_names_add(strmap_t **self, const char *prefix);
void cookie_names_drop(strmap_t **self, const char *prefix);
/* Free what nobody dropped. */
void cookie_names_destroy(strmap_t **self);

/* Is it, byte for byte, a name that nonces of a module have which calls them own: that, a dot and
 * one hexadecimal digit, or as versions before set it that and COOKIE_NONCE_DIGITS, or that itself?
 * *ret_digits: up to the name's end, NULL: none. cookie_names_have is true for each of them, so no
 * upstream can set a cookie that is taken for a nonce. */
bool cookie_name_is_nonce(const char *name, size_t len, const char *own, size_t own_len,
                          const char **ret_digits);

/* Is the folded name one of the edge's (self may be NULL), or one that sign-in has by default, on
 * whatever edge? Or, where the cookie's value has the form of a token, one that a module can have
 * had: "__Host-", any prefix, and what sessions and nonces are called? */
bool cookie_names_have(const strmap_t *self, const char *folded, size_t len, bool has_token);
