/* msgpack-c's encoder, inlined over a fixed buffer: the call through a function pointer for every
 * header byte was a fifth of a request's cost. */
#pragma once

#include <msgpack.h>
#include <stdbool.h>
#include <string.h>

typedef struct {
    unsigned char *at, *end;
    bool full; /* something did not fit; what was packed is of no use */
} pack_t;

static inline int
pack_append(pack_t *out, const void *bytes, size_t len)
{
    if (len == 0) {
        return 0;   /* bytes may be NULL */
    }
    if (len > (size_t) (out->end - out->at)) {
        out->full = true;
        return -1;
    }
    memcpy(out->at, bytes, len);
    out->at += len;
    return 0;
}

#define msgpack_pack_inline_func(name)  static inline int pack ## name
#define msgpack_pack_inline_func_cint(name)  static inline int pack ## name
#define msgpack_pack_inline_func_fixint(name)  static inline int pack_fix ## name
#define msgpack_pack_user  pack_t *
#define msgpack_pack_append_buffer(user, bytes, len) \
    return pack_append(user, (const char *) (bytes), len)
#include <msgpack/pack_template.h>
