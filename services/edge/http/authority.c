#include "services/edge/http/authority.h"

#include <ctype.h>

enum { HOST_MAX = 254 /* 253 bytes (RFC 1035) and a final dot */, PORT_MAX = 65535 };

/* A table and no comparisons: this runs for every byte of every request's host. */
static int is_name(char c)
{
    static const unsigned char names[256] = {
        ['0' ... '9'] = 1, ['A' ... 'Z'] = 1, ['a' ... 'z'] = 1, ['-'] = 1, ['_'] = 1, ['.'] = 1,
    };

    return names[(unsigned char)c];
}

/* Length of an IPv6 literal with its brackets, 0: it is none. Whether it is a valid address does
 * not matter: no edge is named by an address. */
static size_t literal_len(const char *text, size_t len)
{
    size_t at = 1;

    while (at < len && (isxdigit((unsigned char)text[at]) || text[at] == ':' || text[at] == '.'))
        at++;
    return at > 1 && at < len && text[at] == ']' ? at + 1 : 0;
}

static size_t host_len(const char *text, size_t len)
{
    size_t at = 0;

    if (len && text[0] == '[')
        return literal_len(text, len);
    while (at < len && is_name(text[at]))
        at++;
    return at;
}

int authority_split(const char *text, size_t len, size_t *ret_host_len, unsigned *ret_port)
{
    size_t at = host_len(text, len);
    unsigned port = 0;

    if (at == 0 || at > HOST_MAX)
        return -1;
    *ret_host_len = at;
    *ret_port = 0;
    if (at == len)
        return 0;
    if (text[at++] != ':')
        return -1;
    if (at == len)
        return 0; /* RFC 3986 3.2.3: a port may be empty */
    for (; at < len; at++) {
        if (!isdigit((unsigned char)text[at]))
            return -1;
        port = 10 * port + (unsigned)(text[at] - '0');
        if (port > PORT_MAX)
            return -1;
    }
    *ret_port = port;
    return port ? 0 : -1;
}
