/* Letters of header names and values, eight bytes at a time. Bytes that are not ASCII stay as they
 * are; each function returns whether there were none. out and data may be equal, but not overlap
 * otherwise. */
#pragma once

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TEXT_HIGH       0x8080808080808080u
#define TEXT_EACH(byte) (0x0101010101010101u * (byte))

/* Eight bytes as a number, the first byte lowest. */
static inline uint64_t text_load(const unsigned char *at)
{
    uint64_t eight;

    memcpy(&eight, at, 8);
    return le64toh(eight);
}

static inline void text_store(unsigned char *at, uint64_t eight)
{
    eight = htole64(eight);
    memcpy(at, &eight, 8);
}

/* Fewer than eight bytes, zeros behind them. The loads overlap: that is quicker than a loop. */
static inline uint64_t text_load_short(const unsigned char *at, size_t n)
{
    uint32_t first, last;

    if (n >= 4) {
        memcpy(&first, at, 4);
        memcpy(&last, at + n - 4, 4);
        return le32toh(first) | (uint64_t)le32toh(last) << (8 * (n - 4));
    }
    if (n == 0) {
        return 0;
    }
    return at[0] | (uint64_t)at[n / 2] << (8 * (n / 2)) | (uint64_t)at[n - 1] << (8 * (n - 1));
}

static inline void text_store_short(unsigned char *at, uint64_t eight, size_t n)
{
    uint32_t first, last;

    if (n >= 4) {
        first = htole32((uint32_t)eight);
        last = htole32((uint32_t)(eight >> (8 * (n - 4))));
        memcpy(at, &first, 4);
        memcpy(at + n - 4, &last, 4);
    } else if (n > 0) {
        at[0] = (unsigned char)eight;
        at[n / 2] = (unsigned char)(eight >> (8 * (n / 2)));
        at[n - 1] = (unsigned char)(eight >> (8 * (n - 1)));
    }
}

/* 0x80 in every byte that is from first to last, both ASCII. */
static inline uint64_t text_range(uint64_t eight, unsigned first, unsigned last)
{
    uint64_t low = eight & ~TEXT_HIGH;

    return (low + TEXT_EACH(0x80 - first)) & ~(low + TEXT_EACH(0x7f - last)) & ~eight & TEXT_HIGH;
}

static inline uint64_t text_lower_eight(uint64_t eight)
{
    return eight | text_range(eight, 'A', 'Z') >> 2;
}

/* Eight bytes with capitals at the starts of words. *starts: 0x80 in the lowest byte when the first
 * byte starts a word; set for the next eight. */
static inline uint64_t text_capitalize_eight(uint64_t eight, uint64_t *starts)
{
    uint64_t dashes = text_range(eight, '-', '-');

    eight = text_lower_eight(eight);
    eight ^= (text_range(eight, 'a', 'z') & (dashes << 8 | *starts)) >> 2;
    *starts = dashes >> 56;
    return eight;
}

static inline bool text_is_ascii(const unsigned char *data, size_t len)
{
    uint64_t bits = 0;
    size_t i;

    if (len < 8) {
        return (text_load_short(data, len) & TEXT_HIGH) == 0;
    }
    for (i = 0; i + 8 <= len; i += 8) {
        bits |= text_load(data + i);
    }
    bits |= text_load(data + len - 8);
    return (bits & TEXT_HIGH) == 0;
}

static inline bool text_lower(unsigned char *out, const unsigned char *data, size_t len)
{
    uint64_t bits = 0, eight, end;
    size_t i;

    if (len < 8) {
        eight = text_load_short(data, len);
        text_store_short(out, text_lower_eight(eight), len);
        return (eight & TEXT_HIGH) == 0;
    }
    end = text_load(data + len - 8); /* may overlap the eight bytes before */
    for (i = 0; i + 8 <= len; i += 8) {
        eight = text_load(data + i);
        bits |= eight;
        text_store(out + i, text_lower_eight(eight));
    }
    text_store(out + len - 8, text_lower_eight(end));
    return ((bits | end) & TEXT_HIGH) == 0;
}

/* Capitalise the first letter and those behind each '-'. */
static inline bool text_capitalize(unsigned char *out, const unsigned char *data, size_t len)
{
    uint64_t bits = 0, starts = 0x80, last = 0, eight, end;
    size_t i;

    if (len < 8) {
        eight = text_load_short(data, len);
        text_store_short(out, text_capitalize_eight(eight, &starts), len);
        return (eight & TEXT_HIGH) == 0;
    }
    end = text_load(data + len - 8);
    last = len == 8 || data[len - 9] == '-' ? 0x80 : 0;
    for (i = 0; i + 8 <= len; i += 8) {
        eight = text_load(data + i);
        bits |= eight;
        text_store(out + i, text_capitalize_eight(eight, &starts));
    }
    text_store(out + len - 8, text_capitalize_eight(end, &last));
    return ((bits | end) & TEXT_HIGH) == 0;
}
