/* Ids and tokens. An id is prefix_KSUID: 27 base62 characters of a 32-bit time in seconds since
 * 1400000000 and 16 more bytes. The first 4 of these are a fraction of the second, so that ids of
 * one machine sort by creation and a list by id is newest first; 12 are random. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { KSUID_LEN = 27, TOKEN_SECRET_LEN = 21, ID_MAX = 64 };

/* Write prefix_KSUID; out holds ID_MAX bytes. */
void id_make(const char *prefix, char *out);

/* True when text is prefix_ and 27 base62 characters. */
bool id_check(const char *prefix, const char *text);

/* True when every one of len characters is base62. */
bool base62_check(const char *text, size_t len);

/* len base62 characters from as many bytes (each modulo 62; use at least 21 for a secret). */
void base62_from(const unsigned char *bytes, size_t len, char *out);
