#include "services/gateway/gateway.h"
#include "common/base/memory.h"

#include <ctype.h>
#include <string.h>

/* Resolve %XX in place where the character is first or above; other escapes stay as they are
 * written. */
static void unescape_from(char *text, unsigned first)
{
    char *out = text;

    for (const char *in = text; *in;) {
        unsigned value;

        if (*in == '%' && isxdigit((unsigned char)in[1]) && isxdigit((unsigned char)in[2])
            && sscanf(in + 1, "%2x", &value) == 1 && value >= first
            && (value != 0x7f || first < ' ')) {
            *out++ = (char)value;
            in += 3;
        } else {
            *out++ = *in++;
        }
    }
    *out = '\0';
}

void query_unescape(char *text)
{
    unescape_from(text, ' ');
}

static void plus_to_space(char *text)
{
    for (; *text; text++)
        if (*text == '+')
            *text = ' ';
}

void query_each(call_t *call, query_fn take)
{
    char *copy = call->query_text ? memory_copy(call->query_text, "a query") : NULL, *name = copy;
    bool more = true;

    while (name && *name && more) {
        char *next = name + strcspn(name, "&"), *value;

        if (*next)
            *next++ = '\0';
        plus_to_space(name);
        value = strchr(name, '=');
        if (value) {
            *value++ = '\0';
            unescape_from(value, 1);
        }
        unescape_from(name, 1);
        more = take(call, name, value);
        name = next;
    }
    free(copy);
}
