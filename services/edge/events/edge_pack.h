/* The few msgpack forms that an event needs, written inline into a fixed buffer (msgpack
 * specification, "Formats"). msgpack-c calls a function through a pointer for every header byte,
 * which was a fifth of a request's instructions; decoding and what is off the request path stay
 * with it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct pack {
    unsigned char *at, *end;
    bool full; /* something did not fit; what was packed is of no use */
} pack_t;

/* Constant bytes, for which the caller set room aside behind end: nothing is checked. */
static inline void
pack_fixed(pack_t *out, const void *bytes, size_t len)
{
    memcpy(out->at, bytes, len);
    out->at += len;
}


static inline void
pack_fixed_byte(pack_t *out, unsigned byte)
{
    *out->at++ = (unsigned char) byte;
}


/* What of an event is always the same: keys, words and how many pairs follow. */
#define PACK_KEY(name)                                                         \
    do {                                                                       \
        _Static_assert(sizeof(name) <= 32, "fixstr");                          \
        pack_fixed_byte(pk, 0xa0 | (sizeof(name) - 1));                        \
        pack_fixed(pk, name, sizeof(name) - 1);                                \
    } while (0)
#define PACK_MAP(name, n)  do { PACK_KEY(name); pack_fixed_byte(pk, 0x80 | (n)); } while (0)
#define PACK_WORD(name, value)  do { PACK_KEY(name); PACK_KEY(value); } while (0)


static inline void
pack_append(pack_t *out, const void *bytes, size_t len)
{
    if (len == 0) {
        return;   /* bytes may be NULL */
    }
    /* which is negative when only the fixed part goes on */
    if ((ptrdiff_t) len > out->end - out->at) {
        out->full = true;
        return;
    }
    memcpy(out->at, bytes, len);
    out->at += len;
}


static inline void
pack_byte(pack_t *out, unsigned byte)
{
    unsigned char  one = (unsigned char) byte;

    pack_append(out, &one, 1);
}


/* Big-endian, n bytes. */
static inline void
pack_number(pack_t *out, unsigned form, uint64_t value, unsigned n)
{
    unsigned char  bytes[9];
    unsigned       i;

    bytes[0] = (unsigned char) form;
    for (i = 0; i < n; i++) {
        bytes[1 + i] = (unsigned char) (value >> (8 * (n - 1 - i)));
    }
    pack_append(out, bytes, 1 + n);
}


static inline void
pack_nil(pack_t *out)
{
    pack_byte(out, 0xc0);
}


static inline void
pack_bool(pack_t *out, bool value)
{
    pack_byte(out, value ? 0xc3 : 0xc2);
}


static inline void
pack_int64(pack_t *out, int64_t value)
{
    if (value >= 0 && value < 128) {
        pack_byte(out, (unsigned) value);
    } else if (value >= 0 && value <= UINT16_MAX) {
        pack_number(out, 0xcd, (uint64_t) value, 2);
    } else if (value >= 0 && value <= UINT32_MAX) {
        pack_number(out, 0xce, (uint64_t) value, 4);
    } else {
        pack_number(out, 0xd3, (uint64_t) value, 8);
    }
}


static inline void
pack_map(pack_t *out, size_t pairs)
{
    if (pairs < 16) {
        pack_byte(out, 0x80 | (unsigned) pairs);
    } else {
        pack_number(out, 0xde, pairs, 2);
    }
}


static inline void
pack_array(pack_t *out, size_t items)
{
    if (items < 16) {
        pack_byte(out, 0x90 | (unsigned) items);
    } else {
        pack_number(out, 0xdc, items, 2);
    }
}


/* What stands before len bytes of text, at most 65,535. */
static inline void
pack_str_head(pack_t *out, size_t len)
{
    if (len < 32) {
        pack_byte(out, 0xa0 | (unsigned) len);
    } else if (len < 256) {
        pack_number(out, 0xd9, len, 1);
    } else {
        pack_number(out, 0xda, len, 2);
    }
}


/* At most 65,535 bytes. */
static inline void
pack_str(pack_t *out, const void *bytes, size_t len)
{
    pack_str_head(out, len);
    pack_append(out, bytes, len);
}
