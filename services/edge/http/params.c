#include "services/edge/http/params.h"

#include "common/base/utf8.h"

#include <string.h>

static int digit_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decode a name or a value up to stop. Returns the bytes written; -1: it is malformed. */
static ptrdiff_t decode_text(const char *at, const char *stop, char *out)
{
    char *to = out;

    while (at < stop) {
        char c = *at++;

        if (c == '+') {
            c = ' ';
        } else if (c == '%') {
            if (stop - at < 2 || digit_of(at[0]) < 0 || digit_of(at[1]) < 0)
                return -1;
            c = (char)(digit_of(at[0]) << 4 | digit_of(at[1]));
            at += 2;
        }
        if (!c)
            return -1;
        *to++ = c;
    }
    for (const char *p = out; p < to;) {
        size_t len = utf8_character((const unsigned char *)p, (const unsigned char *)to);

        if (!len)
            return -1;
        p += len;
    }
    return to - out;
}

/* One pair, of which nothing is left out. */
static int parse_pair(params_t *out, const char *at, const char *stop, char **memory)
{
    const char *equals = memchr(at, '=', (size_t)(stop - at));
    const char *name_end = equals ? equals : stop;
    param_t *one = &out->each[out->count];
    ptrdiff_t len;

    if (out->count == PARAMS_MAX)
        return -1;
    len = decode_text(at, name_end, *memory);
    if (len < 0 || len > PARAMS_NAME_MAX)
        return -1;
    one->name = *memory;
    one->name_len = (size_t)len;
    *memory += len;
    len = decode_text(equals ? equals + 1 : stop, stop, *memory);
    if (len < 0)
        return -1;
    one->value = *memory;
    one->value_len = (size_t)len;
    *memory += len;
    out->count++;
    return 0;
}

static int parse_all(params_t *out, const char *text, size_t len, char *memory)
{
    const char *at = text, *end = text + len;

    while (at < end) {
        const char *stop = memchr(at, '&', (size_t)(end - at));

        stop = stop ? stop : end;
        if (stop > at && parse_pair(out, at, stop, &memory))
            return -1;
        at = stop < end ? stop + 1 : end;
    }
    return 0;
}

int params_parse(params_t *out, const char *text, size_t len, char *memory)
{
    return len > PARAMS_BYTES ? -1 : parse_all(out, text, len, memory);
}

int params_parse_form(params_t *out, const char *text, size_t len, char *memory)
{
    return len > PARAMS_FORM_BYTES ? -1 : parse_all(out, text, len, memory);
}

const param_t *params_one(const params_t *self, const char *name)
{
    const param_t *found = NULL;
    size_t len = strlen(name);

    for (size_t i = 0; i < self->count; i++) {
        if (self->each[i].name_len != len || memcmp(self->each[i].name, name, len) != 0)
            continue;
        if (found)
            return NULL;
        found = &self->each[i];
    }
    return found;
}
