#include "services/edge/modules/webhook_content.h"
#include "services/edge/modules/webhook_fields.h"
#include "services/edge/modules/webhook_header.h"

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum {
    JSON_CHARACTER_MAX = 6,
    SIGNED_HEADERS_MAX = 32 /* each is looked for among all headers of the request */
};

typedef struct content {
    const webhook_provider_t *row;
    const webhook_request_t *request;
    const webhook_claims_t *claims;
    bool portless;
    webhook_sum_t *sum;
} content_t;

static void add_text(const content_t *self, webhook_text_t text)
{
    webhook_sum_add(self->sum, text.at, text.len);
}

static void add_string(const content_t *self, const char *text)
{
    webhook_sum_add(self->sum, text, strlen(text));
}

/* https://host, with the port that the client named. */
static void add_origin(const content_t *self)
{
    webhook_text_t authority = self->request->authority;
    const char *colon = self->portless ? memrchr(authority.at, ':', authority.len) : NULL;

    if (colon && !memchr(colon, ']', (size_t)(authority.at + authority.len - colon)))
        authority.len = (size_t)(colon - authority.at);
    add_string(self, "https://");
    add_text(self, authority);
}

static bool add_url(const content_t *self)
{
    add_origin(self);
    add_text(self, self->request->target);
    return true;
}

/* hubspot: "Validating requests", URL-encoded characters to decode. */
static bool add_decoded_url(const content_t *self)
{
    static const char escapes[] = "3A:2F/40@21!24$27'28(29)2A*2C,3B;";
    webhook_text_t rest = self->request->target;

    add_origin(self);
    while (rest.len) {
        size_t at = 0, taken = 1;

        if (*rest.at == '%' && rest.len >= 3)
            while (escapes[at] && strncasecmp(rest.at + 1, escapes + at, 2) != 0)
                at += 3;
        else
            at = sizeof(escapes) - 1;
        taken = escapes[at] ? 3 : 1;
        webhook_sum_add(self->sum, escapes[at] ? escapes + at + 2 : rest.at, 1);
        rest.at += taken;
        rest.len -= taken;
    }
    return true;
}

static bool is_form(const webhook_request_t *request)
{
    static const char form[] = "application/x-www-form-urlencoded";
    size_t len = sizeof(form) - 1;

    return request->type.len >= len && !strncasecmp(request->type.at, form, len)
           && (request->type.len == len || strchr("; ", request->type.at[len]));
}

/* The body's fields in order. Nothing of a body may be left out. */
static bool read_form(const webhook_request_t *request, webhook_fields_t *fields)
{
    webhook_text_t body = {request->body, request->body_len};

    return webhook_fields_read(fields, body, true)
           && (!body.len || (is_form(request) && fields->count));
}

/* A body that is no form is signed by its digest, which the URL has (twilio: "Validating requests,
 * JSON bodies"). */
static bool is_digest_of_body(const content_t *self, bool *ret_given)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char given[2 * sizeof(digest) + 1], hex[sizeof(given)];

    *ret_given = memmem(self->request->target.at, self->request->target.len, "bodySHA256", 10);
    if (!webhook_query_field(self->request->target, "bodySHA256", given, sizeof(given))
        || strlen(given) != sizeof(hex) - 1)
        return false;
    SHA256((const unsigned char *)self->request->body, self->request->body_len, digest);
    sodium_bin2hex(hex, sizeof(hex), digest, sizeof(digest));
    return CRYPTO_memcmp(given, hex, sizeof(hex) - 1) == 0;
}

/* Names and values, one behind the other; a field that is there twice with the same value counts
 * once. */
static bool add_form(const content_t *self)
{
    webhook_fields_t fields = {0};
    bool given, is = is_digest_of_body(self, &given);

    if (given)
        return is;
    is = read_form(self->request, &fields);
    for (size_t i = 0; is && i < fields.count; i++) {
        const webhook_field_t *field = &fields.each[i];

        if (i && webhook_text_same(field->name, field[-1].name)
            && webhook_text_same(field->value, field[-1].value))
            continue;
        add_text(self, field->name);
        add_text(self, field->value);
    }
    webhook_fields_free(&fields);
    return is;
}

/* plivo, V3: https://host/path[?][a=1&b=2][.][c3d4]; the point where both are there. */
static bool add_fields_of_url(const content_t *self)
{
    const webhook_request_t *request = self->request;
    webhook_text_t query = webhook_query(request->target), path = request->target;
    webhook_fields_t in_query = {0}, in_form = {0};
    bool ok = webhook_fields_read(&in_query, query, true) && read_form(request, &in_form)
              && (!webhook_text_is(request->method, "GET") || !request->body_len);

    path.len -= query.at ? query.len + 1 : 0;
    add_origin(self);
    add_text(self, path);
    if (ok && in_query.count + in_form.count)
        add_string(self, "?");
    for (size_t i = 0; ok && i < in_query.count; i++) {
        add_string(self, i ? "&" : "");
        add_text(self, in_query.each[i].name);
        add_string(self, "=");
        add_text(self, in_query.each[i].value);
    }
    if (ok && in_query.count && in_form.count)
        add_string(self, ".");
    for (size_t i = 0; ok && i < in_form.count; i++) {
        add_text(self, in_form.each[i].name);
        add_text(self, in_form.each[i].value);
    }
    webhook_fields_free(&in_query);
    webhook_fields_free(&in_form);
    return ok;
}

static void add_escaped(const content_t *self, char c)
{
    char text[4];

    snprintf(text, sizeof(text), "%%%02X", (unsigned char)c);
    add_string(self, text);
}

/* What JavaScript's encodeURI leaves as it is, and what querystring.escape does. */
static bool is_kept(char c, bool component)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')
           || (c && strchr(component ? "-_.!~*'()" : "-_.!~*'();/?:@&=+$,#", c));
}

static bool add_escaped_path(const content_t *self)
{
    webhook_text_t query = webhook_query(self->request->target), path = self->request->target;

    path.len -= query.at ? query.len + 1 : 0;
    if (query.at && memchr(query.at, '?', query.len))
        return false; /* the sender signs nothing of what stands behind the second one */
    for (size_t i = 0; i < path.len; i++) {
        if (is_kept(path.at[i], false))
            webhook_sum_add(self->sum, path.at + i, 1);
        else
            add_escaped(self, path.at[i]);
    }
    if (query.len)
        add_string(self, "?");
    for (size_t i = 0; query.at && i < query.len; i++) {
        char text[6];

        snprintf(text, sizeof(text), "%%25%02X", (unsigned char)query.at[i]);
        if (is_kept(query.at[i], true))
            webhook_sum_add(self->sum, query.at + i, 1);
        else
            add_string(self, text);
    }
    return true;
}

static bool add_signed_headers(const content_t *self)
{
    webhook_text_t list, last = {"", 0};
    webhook_text_t name = {"x-contentful-signed-headers", 27};
    size_t count = 0;
    bool timed = false;

    if (!webhook_header_only(self->request, name, &list))
        return false;
    while (list.len) {
        const char *end = memchr(list.at, ',', list.len);
        webhook_text_t value;
        size_t least;

        name = (webhook_text_t){list.at, end ? (size_t)(end - list.at) : list.len};
        least = name.len < last.len ? name.len : last.len;
        if (++count > SIGNED_HEADERS_MAX || memcmp(last.at, name.at, least) > 0
            || webhook_text_same(last, name) || !webhook_header_only(self->request, name, &value))
            return false;
        timed = timed || webhook_text_is(name, self->row->time);
        add_string(self, last.len ? ";" : "");
        add_text(self, name);
        add_string(self, ":");
        add_text(self, value);
        last = name;
        list.at += name.len + (end ? 1 : 0);
        list.len -= name.len + (end ? 1 : 0);
    }
    return timed;
}

/* Writes a character as JSON.stringify does; at most JSON_CHARACTER_MAX bytes. */
static size_t write_json(unsigned char c, char *out)
{
    static const char plain[] = "\"\\\b\f\n\r\t", escaped[] = "\"\\bfnrt",
                      digits[] = "0123456789abcdef";
    const char *at = c ? strchr(plain, c) : NULL;

    if (c >= 0x20 && !at) {
        *out = (char)c;
        return 1;
    }
    out[0] = '\\';
    if (at) {
        out[1] = escaped[at - plain];
        return 2;
    }
    out[1] = 'u';
    out[2] = out[3] = '0';
    out[4] = digits[c >> 4];
    out[5] = digits[c & 15];
    return 6;
}

/* As a string of JSON. A block at a time: one character at a time would keep the worker for 70
 * ms with 1 MiB. */
static bool add_json(const content_t *self, webhook_text_t text)
{
    char block[4096];
    size_t n = 0;

    block[n++] = '"';
    for (size_t i = 0; i < text.len; i++) {
        if (sizeof(block) - n < JSON_CHARACTER_MAX) {
            webhook_sum_add(self->sum, block, n);
            n = 0;
        }
        n += write_json((unsigned char)text.at[i], block + n);
    }
    webhook_sum_add(self->sum, block, n);
    add_string(self, "\"");
    return true;
}

static bool add_environment(const content_t *self)
{
    webhook_text_t name;

    return webhook_header_item(self->claims->header, self->row->separator, "env=", &name)
           && add_json(self, name);
}

static bool add_part(const content_t *self, char part)
{
    webhook_text_t body = {self->request->body, self->request->body_len};

    switch (part) {
    case 'b':
        add_text(self, body);
        return true;
    case 't':
        add_text(self, self->claims->time);
        return true;
    case 'i':
        add_text(self, self->claims->id);
        return true;
    case 'm':
        add_text(self, self->request->method);
        return true;
    case 'u':
        return add_url(self);
    case 'U':
        return add_decoded_url(self);
    case 'f':
        return add_form(self);
    case 'v':
        return add_fields_of_url(self);
    case 'p':
        return add_escaped_path(self);
    case 'h':
        return add_signed_headers(self);
    case 'j':
        return add_json(self, body);
    case 'e':
        return add_environment(self);
    default:
        return false;
    }
}

bool webhook_content_add(const webhook_provider_t *row, const webhook_request_t *request,
                         const webhook_claims_t *claims, bool portless, webhook_sum_t *sum)
{
    const content_t self = {row, request, claims, portless, sum};

    for (const char *at = row->content; *at; at++) {
        if (*at != '%')
            webhook_sum_add(sum, at, 1);
        else if (!add_part(&self, *++at))
            return false;
    }
    return true;
}
