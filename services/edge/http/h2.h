/* What an upstream sends over HTTP/2 (RFC 9113). nginx's gRPC module parses it; this looks at the
 * same bytes before, and bounds what nginx would take without end: header blocks, and frames that
 * carry nothing. It also judges fields, of which nginx accepts more than HTTP has. No nginx in
 * here. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    H2_FRAME_HEAD = 9,
    H2_FRAME_MAX = 16384,       /* the largest payload that the edge allows (RFC 9113 4.2) */
    H2_OVERHEAD_FREE = 1 << 20, /* bytes that are neither body nor fields: so many in any case */
    H2_OVERHEAD_RATIO = 8       /* and so many for each byte of a body, in either direction */
};

/* Of one response. */
typedef struct h2_scan {
    unsigned char head[H2_FRAME_HEAD]; /* of the current frame */
    unsigned have;                     /* bytes of it that have come */
    uint32_t left;                     /* bytes of the frame's payload still to come */
    bool padded;                       /* the next byte of the payload says how many are padding */
    size_t block;                      /* bytes of the current header block, with frame headers */
    uint64_t body;                     /* bytes of DATA without padding */
    uint64_t overhead;                 /* bytes of all else but header blocks */
    uint32_t code;                     /* of RST_STREAM */
    bool reset;                        /* the upstream has sent RST_STREAM */
    bool spoken;                       /* it has begun a frame that was not refused */
} h2_scan_t;

/* Prepare for the first byte that the upstream sends for a request. */
void h2_begin(h2_scan_t *self);

/* Scan the bytes that came next, in pieces of any size. NULL, or why they are refused, in words.
 * block_max: bytes of a header block; sent: bytes of the request so far, without what nginx sends
 * by itself. */
const char *h2_scan(h2_scan_t *self, const void *data, size_t len, size_t block_max, uint64_t sent);

/* Of one header block, the head's or the trailers'; begins zeroed. */
typedef struct h2_fields {
    unsigned count;
    size_t bytes;   /* of names and values */
    size_t largest; /* name or value */
    bool length;    /* Content-Length is among them */
} h2_fields_t;

/* Judge the next field of a block; not a pseudo-header field, which nginx judges. NULL, or why the
 * block is refused, in words. */
const char *h2_judge_field(h2_fields_t *self, const char *name, size_t name_len, const char *value,
                           size_t value_len);
