#include "services/edge/http/trace.h"

#include <string.h>

enum { PARENT_ID_LEN = 16, VERSION_LEN = 2, FLAGS_LEN = 2 };

static bool is_hex(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (!((text[i] >= '0' && text[i] <= '9') || (text[i] >= 'a' && text[i] <= 'f')))
            return false;
    return true;
}

/* Hexadecimal digits, and not all of them zero: that is the invalid id. */
static bool is_id(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++)
        if (text[i] != '0')
            return is_hex(text, len);
    return false;
}

bool trace_parent_is_valid(const char *value, size_t len)
{
    const char *id = value + VERSION_LEN + 1, *parent = id + TRACE_ID_LEN + 1;
    const char *flags = parent + PARENT_ID_LEN + 1;

    if (len < TRACE_PARENT_LEN || len > TRACE_PARENT_MAX)
        return false;
    if (!is_hex(value, VERSION_LEN) || !memcmp(value, "ff", VERSION_LEN))
        return false;
    if (id[-1] != '-' || parent[-1] != '-' || flags[-1] != '-')
        return false;
    if (!is_id(id, TRACE_ID_LEN) || !is_id(parent, PARENT_ID_LEN) || !is_hex(flags, FLAGS_LEN))
        return false;
    if (len == TRACE_PARENT_LEN)
        return true;
    /* Only versions after 00 have more, behind another dash. */
    return memcmp(value, "00", VERSION_LEN) && value[TRACE_PARENT_LEN] == '-';
}

void trace_hex(const unsigned char *bytes, size_t len, char *out)
{
    static const char digits[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *out++ = digits[bytes[i] >> 4];
        *out++ = digits[bytes[i] & 15];
    }
}

void trace_begin(const char *id, const unsigned char *parent, bool sampled, char *out)
{
    memcpy(out, "00-", 3);
    memcpy(out + 3, id, TRACE_ID_LEN);
    out[3 + TRACE_ID_LEN] = '-';
    trace_hex(parent, PARENT_ID_LEN / 2, out + 4 + TRACE_ID_LEN);
    memcpy(out + 4 + TRACE_ID_LEN + PARENT_ID_LEN, sampled ? "-01" : "-00", 3);
}
