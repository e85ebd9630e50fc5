/* Sixteen bytes at once, in the compiler's own vectors (GCC and clang have them for every machine):
 * for checks of each character of what a request brings. A comparison is 0xff where it holds, else
 * 0. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK_BYTES = 16 };

typedef unsigned char block_t __attribute__((vector_size(16)));

/* The sixteen bytes there, however they are aligned. */
static inline block_t block_load(const void *from)
{
    block_t out;

    memcpy(&out, from, sizeof(out));
    return out;
}

/* Is a bit of it set? */
static inline bool block_any(block_t block)
{
    uint64_t halves[2];

    memcpy(halves, &block, sizeof(halves));
    return halves[0] | halves[1];
}

/* Where bytes are from first on, count of them. */
static inline block_t block_within(block_t block, unsigned char first, unsigned char count)
{
    return (block_t)((block - first) < count);
}
