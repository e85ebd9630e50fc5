/* Quotes a peer's bytes inside our messages: the result is valid UTF-8 and short, and has nothing
 * that could end the quotation, move a cursor or change the direction of text. */
#pragma once

#include <stddef.h>

enum { QUOTE_BYTES = 100 /* bytes of what is quoted */, QUOTE_SIZE = QUOTE_BYTES + 8 };

typedef struct quote {
    char text[QUOTE_SIZE];
} quote_t;

/* Quote text as 'text': quotes and backslashes get a backslash, what cannot be shown becomes a
 * question mark, the end of a long text three dots. NULL becomes ''. Use it as quote(x).text,
 * inside one call. */
quote_t quote(const char *text);

/* "a" or "an", as it stands before a noun of ours: a type, a kind of object. */
const char *quote_article(const char *noun);

/* Copy what fits of text into size bytes, without quotes around it: for a field's name, or a text
 * that is made of quoted parts. out may be text. */
void quote_plain(char *out, size_t size, const char *text);
