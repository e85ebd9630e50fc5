/* What somebody sent, inside a text of ours: the one way to quote it. Always whole characters of UTF-8, always short, and
 * nothing that could end the quotation, move a cursor or turn the direction of what stands around it. */
#pragma once

#include <stddef.h>

enum { QUOTE_BYTES = 100 /* of what is quoted */, QUOTE_SIZE = QUOTE_BYTES + 8 };

typedef struct quote {
    char text[QUOTE_SIZE];
} quote_t;

/* 'text': quotes and backslashes behind a backslash, what cannot be shown as a question mark, the end of what is too long
 * as three dots. NULL is ''. Use it as quote(x).text, inside one call. */
quote_t quote(const char *text);

/* What fits of text into size bytes, without quotes around it: a field's name, or a text that somebody else put together.
 * out may be text. */
void quote_plain(char *out, size_t size, const char *text);
