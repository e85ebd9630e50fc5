/* Encoders of content codings: bytes go in, encoded bytes come out, in pieces of any size. No nginx
 * in here.
 *
 * Memory of one encoder is bounded by its coding, for a window and what searches it, whatever the
 * client could decode: gzip and deflate take 264 KiB, with a window of 32 KiB; zstd 650 KiB and br
 * 1.9 MiB, with one of 64 KiB. A body whose length is known and less than the window has a smaller
 * one: gzip and deflate take down to about 20 KiB then, zstd to 40 KiB. */
#pragma once

#include "services/edge/modules/codings.h"

typedef struct encoder encoder_t;

typedef enum {
    ENCODE_MORE,  /* the encoder may keep what it took, for what follows */
    ENCODE_FLUSH, /* what it took can be decoded from what it gave */
    ENCODE_END
} encode_t;

typedef enum {
    ENCODED_ALL,  /* all input is taken, and the flush or the end is complete */
    ENCODED_PART, /* more room is needed: call again, with the same encode_t */
    ENCODED_NOT   /* the encoder is of no more use: no memory */
} encoded_t;

/* What goes in and comes out: both ends move. */
typedef struct encode_io {
    const unsigned char *in;
    size_t in_len;
    unsigned char *out;
    size_t out_len;
} encode_io_t;

/* length: of the whole body; -1: unknown. NULL: no memory. */
encoder_t *encoder_new(coding_t coding, int64_t length);
/* Takes as much as it can. The cost of a call grows with in_len, and is bounded where in_len is 0.
 * out_len is at least 16. */
encoded_t encoder_write(encoder_t *self, encode_t what, encode_io_t *io);
/* Bytes that an encoder of this coding allocates at most: it fails rather than take more. */
size_t encoder_memory_max(coding_t coding);
/* Bytes that it has allocated. */
size_t encoder_memory(const encoder_t *self);
/* Free and set *self_p to NULL; NULL is fine. */
void encoder_destroy(encoder_t **self_p);
