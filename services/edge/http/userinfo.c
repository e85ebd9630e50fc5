#include "services/edge/http/userinfo.h"

#include <ctype.h>
#include <string.h>

/* Where an authority may begin: behind scheme and slashes, however many of them, or at once. */
static size_t find_authority(const char *text, size_t len)
{
    size_t at = 0;

    while (at < len && (isalnum((unsigned char)text[at]) || strchr("+-.", text[at])) && text[at])
        at++;
    if (at + 1 >= len || text[at] != ':' || text[at + 1] != '/')
        return 0;
    for (at++; at < len && text[at] == '/';)
        at++;
    return at;
}

bool userinfo_find(const char *text, size_t len, bool all, size_t *ret_begin, size_t *ret_end)
{
    size_t at;

    *ret_begin = *ret_end = 0;
    if (len == 0
        || !memchr(text, '@', len)) /* nearly every text, and this is asked for each event */
        return false;
    *ret_begin = at = find_authority(text, len);
    for (; at < len && (all || (text[at] != '/' && text[at] != '?' && text[at] != '#')); at++)
        if (text[at] == '@')
            *ret_end = at + 1;
    return *ret_end != 0;
}
