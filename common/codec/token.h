/* msgpack one token at a time. A bounded reader of our own over the encoding (msgpack specification 2013-04-21, "Formats"):
 * msgpack-c's unpacker sizes arrays from the header before it has seen the items. Lengths are checked against what is left, so
 * nothing is allocated that the bytes do not pay for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct token_reader {
    const unsigned char *at, *end;
    size_t items; /* read so far; more than PACK_ITEMS_MAX are refused */
    bool binary;  /* allowed */
} token_reader_t;

typedef enum token_kind {
    TOKEN_NIL,
    TOKEN_BOOLEAN,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_STRING, /* any bytes: nobody looked whether they are UTF-8 */
    TOKEN_BINARY,
    TOKEN_ARRAY,
    TOKEN_MAP
} token_kind_t;

typedef struct token {
    token_kind_t kind;
    int64_t integer; /* and boolean */
    double real;
    const char *bytes; /* in the reader's */
    size_t len;        /* bytes, items or pairs: never more than there can be in what is left */
} token_t;

/* The next token: a scalar, or the head of an array or map whose items come next. 0 | -EBADMSG (the end, a cut, an
 * extension, a whole number beyond 63 bits) | -EMSGSIZE. */
int token_next(token_reader_t *in, token_t *token);
