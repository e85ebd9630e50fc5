#include "common/codec/path.h"
#include "common/base/invariant.h"
#include "common/base/utf8.h"

#include <string.h>

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* Unreserved characters (RFC 3986 2.3), and those that stand for themselves in a path (3.3: pchar
 * and '/'). */
enum { UNRESERVED = 1, LITERAL = 2 };

#define U (UNRESERVED | LITERAL)
#define L LITERAL
static const unsigned char kinds[256] = {
    ['!'] = L, ['$'] = L, ['&'] = L, ['\''] = L, ['('] = L, [')'] = L, ['*'] = L, ['+'] = L,
    [','] = L, ['-'] = U, ['.'] = U, ['/'] = L,  [':'] = L, [';'] = L, ['='] = L, ['@'] = L,
    ['_'] = U, ['~'] = U, ['0'] = U, ['1'] = U,  ['2'] = U, ['3'] = U, ['4'] = U, ['5'] = U,
    ['6'] = U, ['7'] = U, ['8'] = U, ['9'] = U,  ['A'] = U, ['B'] = U, ['C'] = U, ['D'] = U,
    ['E'] = U, ['F'] = U, ['G'] = U, ['H'] = U,  ['I'] = U, ['J'] = U, ['K'] = U, ['L'] = U,
    ['M'] = U, ['N'] = U, ['O'] = U, ['P'] = U,  ['Q'] = U, ['R'] = U, ['S'] = U, ['T'] = U,
    ['U'] = U, ['V'] = U, ['W'] = U, ['X'] = U,  ['Y'] = U, ['Z'] = U, ['a'] = U, ['b'] = U,
    ['c'] = U, ['d'] = U, ['e'] = U, ['f'] = U,  ['g'] = U, ['h'] = U, ['i'] = U, ['j'] = U,
    ['k'] = U, ['l'] = U, ['m'] = U, ['n'] = U,  ['o'] = U, ['p'] = U, ['q'] = U, ['r'] = U,
    ['s'] = U, ['t'] = U, ['u'] = U, ['v'] = U,  ['w'] = U, ['x'] = U, ['y'] = U, ['z'] = U,
};
#undef U
#undef L

/* Is the path normal as it is? Nothing is escaped, and no segment is empty or begins with a dot. */
static int is_plain(const char *path, size_t len)
{
    unsigned char before = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];

        if (!kinds[c] || (before == '/' && (c == '/' || c == '.')))
            return 0;
        before = c;
    }
    return 1;
}

/* Is [at, end) a segment that an upstream could read as "." or ".."? Parameters after ';' and
 * parts behind escaped separators count. */
static int hidden_dots(const char *at, const char *end)
{
    while (at < end) {
        const char *stop = at;
        size_t n;

        while (stop < end && *stop != ';'
               && !(end - stop >= 3 && *stop == '%'
                    && (!memcmp(stop, "%2F", 3) || !memcmp(stop, "%5C", 3))))
            stop++;
        n = (size_t)(stop - at);
        if ((n == 1 && at[0] == '.') || (n == 2 && at[0] == '.' && at[1] == '.'))
            return 1;
        while (stop < end && *stop == ';') /* skip the parameter itself */
            while (stop < end && *stop != '%')
                stop++;
        at = stop < end ? stop + 3 : end;
    }
    return 0;
}

/* Copy the path into out with every byte in its one spelling: unescaped where it may be, else
 * escaped. Returns the bytes, or -1: refused, or it does not fit. */
static int copy_canonical(const char *path, size_t len, char *out, size_t size, size_t *ret_len)
{
    static const char digits[] = "0123456789ABCDEF";
    unsigned char first = 0;
    int tail = 0;
    size_t n = 0;

    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)path[i];
        int escaped = c == '%';

        if (escaped) {
            if (len - i < 3 || hex_digit(path[i + 1]) < 0 || hex_digit(path[i + 2]) < 0)
                return -1;
            c = (unsigned char)(hex_digit(path[i + 1]) << 4 | hex_digit(path[i + 2]));
            i += 2;
        } else if (c == '#' || c == '\\' || c == '?' || c == ' ') {
            return -1;
        }
        if (c < 0x20 || c == 0x7f)
            return -1;
        if (tail > 0) {
            if (c < 0x80 || c > 0xbf || (first && !utf8_second_ok(first, c)))
                return -1;
            tail--;
            first = 0;
        } else {
            tail = utf8_tail(c);
            if (tail < 0)
                return -1;
            first = tail ? c : 0;
        }
        if (size - n < 3)
            return -1;
        if (kinds[c] & (escaped ? UNRESERVED : LITERAL)) {
            out[n++] = (char)c;
        } else {
            out[n++] = '%';
            out[n++] = digits[c >> 4];
            out[n++] = digits[c & 15];
        }
    }
    *ret_len = n;
    return tail ? -1 : 0;
}

size_t path_room(const char *path, size_t len)
{
    size_t room = len + 3; /* copy_canonical asks for room for an escape before each byte */

    for (size_t i = 0; i < len; i++)
        if (!kinds[(unsigned char)path[i]] && path[i] != '%')
            room += 2;
    return room;
}

int path_normalize(const char *path, size_t len, char *out, size_t size, size_t *ret_len)
{
    size_t n = 0, at = 0, total;

    if (!len || path[0] != '/')
        return -1;
    if (is_plain(path, len) && len <= size) {
        memcpy(out, path, len);
        *ret_len = len;
        return 0;
    }
    if (copy_canonical(path, len, out, size, &total))
        return -1;

    /* Remove dot segments and empty segments in place (RFC 3986 5.2.4, and // as /). */
    while (at < total) {
        size_t end = at + 1, seg;

        while (end < total && out[end] != '/')
            end++;
        seg = end - at - 1;
        if (seg == 0) {
            if (end == total)
                out[n++] = '/'; /* the path ends in a slash */
        } else if (seg == 1 && out[at + 1] == '.') {
            if (end == total)
                out[n++] = '/';
        } else if (seg == 2 && out[at + 1] == '.' && out[at + 2] == '.') {
            if (n == 0)
                return -1;
            do
                n--;
            while (out[n] != '/'); /* what is written begins with one */
            if (end == total)
                out[n++] = '/';
        } else if (hidden_dots(out + at + 1, out + end)) {
            return -1;
        } else {
            INVARIANT(n <= at && end <= total); /* what is written is behind what is read */
            memmove(out + n, out + at, end - at);
            n += end - at;
        }
        at = end;
    }
    INVARIANT(n <= total && total <= size);
    if (n == 0)
        out[n++] = '/';
    *ret_len = n;
    return 0;
}
