#include "common/base/quote.h"
#include "common/base/invariant.h"
#include "common/base/utf8.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/* Code point of a character of n bytes. */
static uint32_t code_point(const unsigned char *at, size_t n)
{
    static const unsigned char lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t code = at[0] & lead[n];

    for (size_t i = 1; i < n; i++)
        code = code << 6 | (at[i] & 0x3f);
    return code;
}

/* False: control characters, line ends of Unicode, and invisible marks or those that turn the
 * text's direction. */
static bool is_shown(uint32_t code)
{
    return code >= 0x20 && !(code >= 0x7f && code < 0xa0) && !(code >= 0x200b && code <= 0x200f)
           && !(code >= 0x2028 && code <= 0x202e) && !(code >= 0x2060 && code <= 0x206f)
           && code != 0xfeff;
}

/* Copy the next character, as it is shown, in at most limit bytes. Returns how many: 0 at the end,
 * or when it does not fit. */
static size_t next_shown(const unsigned char **at_p, const unsigned char *end, bool quoted,
                         size_t limit, char *out)
{
    const unsigned char *at = *at_p;
    size_t n = utf8_character(at, end), put;

    if (at == end)
        return 0;
    if (!n || !is_shown(code_point(at, n))) {
        put = 1;
        if (limit)
            *out = '?';
    } else {
        bool escaped = quoted && (*at == '\'' || *at == '\\');

        put = n + escaped;
        if (put <= limit) {
            memmove(out + escaped, at, n);
            if (escaped)
                *out = '\\';
        }
    }
    if (put > limit)
        return 0;
    *at_p = at + (n ? n : 1);
    return put;
}

quote_t quote(const char *text)
{
    const unsigned char *at = (const unsigned char *)(text ? text : "");
    const unsigned char *end = at + strlen((const char *)at);
    quote_t out;
    size_t len = 0, put;

    out.text[len++] = '\'';
    while ((put = next_shown(&at, end, true, QUOTE_BYTES + 1 - len, out.text + len)))
        len += put;
    INVARIANT(len + sizeof("...'") <= sizeof(out.text));
    memcpy(out.text + len, at == end ? "'" : "...'", at == end ? 2 : 5);
    return out;
}

const char *quote_article(const char *noun)
{
    return strchr("aeio", *noun) || !strncmp(noun, "http", 4) || !strncmp(noun, "ssh", 3) ? "an"
                                                                                          : "a";
}

void quote_plain(char *out, size_t size, const char *text)
{
    const unsigned char *at = (const unsigned char *)text, *end = at + strlen(text);
    size_t len = 0, put;

    INVARIANT(size > 0);
    /* Leave out a last character that a buffer has cut. */
    for (size_t back = 1; back < 4 && back <= (size_t)(end - at); back++)
        if (utf8_tail(*(end - back)) >= (int)back) {
            end -= back;
            break;
        }
    while ((put = next_shown(&at, end, false, size - 1 - len, out + len)))
        len += put;
    INVARIANT(len < size);
    out[len] = '\0';
}
