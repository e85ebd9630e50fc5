/* msgpack one token at a time: a bounded reader of our own (msgpack specification 2013-04-21,
 * "Formats"), because msgpack-c's unpacker allocates arrays by their header before it has seen the
 * items. Lengths are checked against the bytes that are left, so nothing is allocated that the
 * message does not pay for. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct token_reader {
    const unsigned char *at, *end;
    size_t items; /* tokens read so far; more than PACK_ITEMS_MAX are refused */
    bool binary;  /* binary values are accepted */
} token_reader_t;

typedef enum token_kind {
    TOKEN_NIL,
    TOKEN_BOOLEAN,
    TOKEN_INTEGER,
    TOKEN_REAL,
    TOKEN_STRING, /* any bytes: not checked for UTF-8 */
    TOKEN_BINARY,
    TOKEN_ARRAY,
    TOKEN_MAP
} token_kind_t;

typedef struct token {
    token_kind_t kind;
    int64_t integer; /* also the value of a boolean */
    double real;
    const char *bytes; /* borrowed from the reader's data */
    size_t len;        /* bytes, items or pairs; bounded by the bytes that are left */
} token_t;

/* The next token: a scalar, or the head of an array or map whose items come next. 0 | -EBADMSG (the
 * end, a cut, an extension, a whole number beyond 63 bits) | -EMSGSIZE. */
int token_next(token_reader_t *in, token_t *token);
