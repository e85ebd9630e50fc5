#include "common/base/id.h"
#include "common/base/invariant.h"

#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

enum { KSUID_EPOCH = 1400000000, KSUID_BYTES = 20 };

static void put_big_endian(unsigned char *out, uint32_t value)
{
    out[0] = (unsigned char)(value >> 24);
    out[1] = (unsigned char)(value >> 16);
    out[2] = (unsigned char)(value >> 8);
    out[3] = (unsigned char)value;
}

/* Big-endian base conversion: 20 bytes to 27 digits, most significant first. */
static void base62_encode(const unsigned char bytes[KSUID_BYTES], char out[KSUID_LEN])
{
    uint32_t parts[KSUID_BYTES / 4];

    for (int i = 0; i < KSUID_BYTES / 4; i++)
        parts[i] = (uint32_t)bytes[4 * i] << 24 | (uint32_t)bytes[4 * i + 1] << 16
                   | (uint32_t)bytes[4 * i + 2] << 8 | bytes[4 * i + 3];
    for (int at = KSUID_LEN - 1; at >= 0; at--) {
        uint64_t rest = 0;

        for (int i = 0; i < KSUID_BYTES / 4; i++) {
            uint64_t value = rest << 32 | parts[i];

            parts[i] = (uint32_t)(value / 62);
            rest = value % 62;
        }
        out[at] = digits[rest];
    }
}

void id_make(const char *prefix, char *out)
{
    unsigned char bytes[KSUID_BYTES];
    struct timespec now;
    int n;

    clock_gettime(CLOCK_REALTIME, &now);
    put_big_endian(bytes, (uint32_t)(now.tv_sec - KSUID_EPOCH));
    put_big_endian(bytes + 4, (uint32_t)now.tv_nsec << 2);
    randombytes_buf(bytes + 8, KSUID_BYTES - 8);
    n = snprintf(out, ID_MAX - KSUID_LEN, "%s_", prefix);
    INVARIANT(n > 0 && n < ID_MAX - KSUID_LEN); /* the prefix is one of the tables */
    base62_encode(bytes, out + n);
    out[n + KSUID_LEN] = '\0';
}

bool base62_check(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!text[i] || !memchr(digits, text[i], 62))
            return false;
    return true;
}

bool id_check(const char *prefix, const char *text)
{
    size_t n = strlen(prefix);

    return !strncmp(text, prefix, n) && text[n] == '_' && strlen(text + n + 1) == KSUID_LEN
           && base62_check(text + n + 1, KSUID_LEN);
}

void base62_from(const unsigned char *bytes, size_t len, char *out)
{
    for (size_t i = 0; i < len; i++)
        out[i] = digits[bytes[i] % 62];
    out[len] = '\0';
}
