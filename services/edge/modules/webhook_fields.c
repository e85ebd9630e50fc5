#include "services/edge/modules/webhook_fields.h"
#include "services/edge/modules/webhook_header.h"

#include <stdlib.h>
#include <string.h>

static int hex_of(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Decodes text to *at, and moves *at behind it. */
static bool decode(webhook_text_t text, char **at, webhook_text_t *out)
{
    out->at = *at;
    for (size_t i = 0; i < text.len; i++) {
        char c = text.at[i];

        if (c == '%') {
            int high = i + 2 < text.len ? hex_of(text.at[i + 1]) : -1,
                low = i + 2 < text.len ? hex_of(text.at[i + 2]) : -1;

            if (high < 0 || low < 0)
                return false;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        *(*at)++ = c;
    }
    out->len = (size_t)(*at - out->at);
    return true;
}

static int text_compare(webhook_text_t one, webhook_text_t other)
{
    size_t len = one.len < other.len ? one.len : other.len;
    int order = len ? memcmp(one.at, other.at, len) : 0;

    return order ? order : (one.len > other.len) - (one.len < other.len);
}

bool webhook_text_same(webhook_text_t one, webhook_text_t other)
{
    return text_compare(one, other) == 0;
}

static int field_compare(const void *one, const void *other)
{
    const webhook_field_t *a = one, *b = other;
    int order = text_compare(a->name, b->name);

    return order ? order : text_compare(a->value, b->value);
}

void webhook_fields_free(webhook_fields_t *self)
{
    free(self->text);
    free(self->each);
    *self = (webhook_fields_t){0};
}

static bool read_field(webhook_fields_t *self, webhook_text_t part, char **at)
{
    const char *equals = memchr(part.at, '=', part.len);
    webhook_text_t name = {part.at, equals ? (size_t)(equals - part.at) : part.len},
                   value = {part.at + part.len, 0};
    webhook_field_t *field = &self->each[self->count];

    if (self->count == WEBHOOK_FIELDS_MAX)
        return false;
    if (equals)
        value = (webhook_text_t){equals + 1, part.len - name.len - 1};
    if (!decode(name, at, &field->name) || !decode(value, at, &field->value))
        return false;
    self->count++;
    return true;
}

bool webhook_fields_read(webhook_fields_t *out, webhook_text_t text, bool sorted)
{
    char *at;

    *out = (webhook_fields_t){.text = malloc(text.len + 1)};
    out->each = calloc(WEBHOOK_FIELDS_MAX, sizeof(*out->each));
    if (!out->text || !out->each)
        return false;
    at = out->text;
    while (text.len) {
        const char *end = memchr(text.at, '&', text.len);
        webhook_text_t part = {text.at, end ? (size_t)(end - text.at) : text.len};

        if (part.len && !read_field(out, part, &at))
            return false;
        text.at += part.len + (end ? 1 : 0);
        text.len -= part.len + (end ? 1 : 0);
    }
    if (sorted && out->count)
        qsort(out->each, out->count, sizeof(*out->each), field_compare);
    return true;
}

webhook_text_t webhook_query(webhook_text_t target)
{
    const char *mark = memchr(target.at, '?', target.len);

    if (!mark)
        return (webhook_text_t){NULL, 0};
    return (webhook_text_t){mark + 1, (size_t)(target.at + target.len - mark - 1)};
}

bool webhook_query_field(webhook_text_t target, const char *name, char *out, size_t size)
{
    webhook_text_t query = webhook_query(target);
    webhook_fields_t fields;
    size_t found = 0;
    bool fits = query.at && webhook_fields_read(&fields, query, false);

    if (!query.at)
        return false;
    for (size_t i = 0; fits && i < fields.count; i++) {
        const webhook_field_t *field = &fields.each[i];

        if (!webhook_text_is(field->name, name))
            continue;
        fits = ++found == 1 && field->value.len < size
               && !memchr(field->value.at, '\0', field->value.len);
        if (fits) {
            memcpy(out, field->value.at, field->value.len);
            out[field->value.len] = '\0';
        }
    }
    webhook_fields_free(&fields);
    return fits && found == 1;
}
