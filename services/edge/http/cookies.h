/* Cookies of a request (RFC 6265 4.2): find one by its name, and cut some out of what goes
 * upstream. No nginx in here. Bytes are not ended by a NUL. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

typedef struct cookie_text {
    const char *at;
    size_t len;
} cookie_text_t;

enum { COOKIE_TOKEN_LEN = 43 /* 32 bytes in base64url without padding */ };

/* How many cookies of a line (a value of the header Cookie) have exactly this name, and the value
 * of the last of them; *value stays as it is where there is none. */
unsigned cookies_find(cookie_text_t line, cookie_text_t name, cookie_text_t *value);

/* Take the first cookie off a line, name and value without the space around them. False: it has
 * none more. */
bool cookies_next(cookie_text_t *line, cookie_text_t *name, cookie_text_t *value);

/* Is it a value as identity makes them: COOKIE_TOKEN_LEN characters of base64url? */
bool cookies_is_token(cookie_text_t value);

/* Is a cookie ours, by its name, folded by cookie_name_fold (table/cookie_names.h), and by whether
 * its value is a token? */
typedef bool cookies_ours_t(const void *names, const char *folded, size_t len, bool has_token);

/* Has the line a cookie that is ours, as whoever reads it may take it: whatever the case of its
 * name, with space around, with '_' or a space for '.', as PHP has it, and with the value in
 * quotes? */
bool cookies_have(cookie_text_t line, cookies_ours_t *ours, const void *names);

/* Write the line without those. All other bytes stay as they are. out has line.len bytes, and may
 * be where the line is; returns how many were written. */
size_t cookies_cut(char *out, cookie_text_t line, cookies_ours_t *ours, const void *names);
