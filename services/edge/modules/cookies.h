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

/* Is it a value as identity makes them: COOKIE_TOKEN_LEN characters of base64url? */
bool cookies_is_token(cookie_text_t value);

/* Write the line without the cookies that have one of the names, as whoever reads it may take them:
 * whatever the case, with space around, and with '_' or a space for '.', as PHP has it. All other
 * bytes stay as they are. out has line.len bytes; returns how many were written. */
size_t cookies_cut(char *out, cookie_text_t line, const cookie_text_t *names, size_t count);
