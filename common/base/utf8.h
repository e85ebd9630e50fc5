/* UTF-8 by the byte (RFC 3629, 4). */
#pragma once

#include <stddef.h>

/* How many continuation bytes follow this first byte; -1: no character begins with it. */
static inline int utf8_tail(unsigned char c)
{
    if (c < 0x80)
        return 0;
    if (c >= 0xc2 && c <= 0xdf)
        return 1;
    if (c >= 0xe0 && c <= 0xef)
        return 2;
    if (c >= 0xf0 && c <= 0xf4)
        return 3;
    return -1;
}

/* Is the second byte allowed? Refuses over-long forms, surrogates and values past U+10FFFF (RFC
 * 3629, 4). */
static inline int utf8_second_ok(unsigned char first, unsigned char second)
{
    if (first == 0xe0)
        return second >= 0xa0;
    if (first == 0xed)
        return second <= 0x9f;
    if (first == 0xf0)
        return second >= 0x90;
    if (first == 0xf4)
        return second <= 0x8f;
    return 1;
}

/* Bytes of the character at `at`; 0: there is no valid one. */
static inline size_t utf8_character(const unsigned char *at, const unsigned char *end)
{
    int tail = at < end ? utf8_tail(*at) : -1;

    if (tail < 0 || end - at <= tail || (tail && !utf8_second_ok(*at, at[1])))
        return 0;
    for (int i = 1; i <= tail; i++)
        if (at[i] < 0x80 || at[i] > 0xbf)
            return 0;
    return (size_t)tail + 1;
}
