/* What others have sent, as it stands in a log. No nginx in here. */
#pragma once

#include "common/base/utf8.h"

#include <string.h>

enum { LOG_ESCAPED = 4 }; /* bytes of \x0a */

/* Bytes of the character that begins here, where it stands in the log as it is. 0: it is a control
 * character of ASCII or of U+0080 to U+009F, which are escapes to terminals, too; no UTF-8; or a
 * backslash, without which nobody could tell an escape from its text. */
static inline size_t log_plain(const unsigned char *at, const unsigned char *end)
{
    size_t n = utf8_character(at, end);

    if (n == 1 && (*at < ' ' || *at == 0x7f || *at == '\\'))
        return 0;
    if (n == 2 && *at == 0xc2 && at[1] < 0xa0)
        return 0;
    return n;
}

/* Escape n bytes of a line into out, of which there are `room`, as many of them as fit; no
 * character is cut. Returns how many out has then. */
static inline size_t log_escape(unsigned char *out, size_t room, const void *line, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *at = line, *end = at + n;
    size_t len = 0, plain;

    for (; at < end; at += plain ? plain : 1) {
        plain = log_plain(at, end);
        if (room - len < (plain ? plain : LOG_ESCAPED))
            break;
        if (plain) {
            memcpy(out + len, at, plain);
            len += plain;
            continue;
        }
        out[len++] = '\\';
        out[len++] = 'x';
        out[len++] = (unsigned char)digits[*at >> 4];
        out[len++] = (unsigned char)digits[*at & 0xf];
    }
    return len;
}
